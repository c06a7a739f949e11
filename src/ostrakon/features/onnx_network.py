"""A frozen network as ONNX, run by onnxruntime one row at a time, so that no row changes the features of another."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from ostrakon.features.preparation import Preparation
from ostrakon.features.recipe import digest_of_file
from ostrakon.validation import InvalidInput

_BITS = 16
_DRAWING = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Sampling")
)
"""Operators that draw at random: their output for a row depends on the number of rows before it."""


class OnnxNetwork:
    """A network in memory. content: the model, or the path of its file.

    Guarantee: the features of a row depend on that row alone, to the last bit: one row per call, on one thread, and
    every number rounded to 16 significant bits. Only ONNX's own operators run.
    Errors: `InvalidInput` for what onnxruntime cannot load, and for a network that wants several rows at once.
    """

    def __init__(self, content: bytes | Path, preparation: Preparation, *, name: str) -> None:
        self.name = name
        self.preparation = preparation
        import onnxruntime  # here, because a table needs none

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.use_deterministic_compute = True
        options.log_severity_level = 4  # what fails is raised
        # For any file name: `files_of` has checked the file as ONNX.
        options.add_session_config_entry("session.load_model_format", "ONNX")
        model = content if isinstance(content, bytes) else str(content)
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises one of a dozen kinds
            raise InvalidInput(f"The encoder {name} cannot be loaded as ONNX: {_first_line(error)}.") from None
        outputs = [output.name for output in self._session.get_outputs()]
        self._output = outputs[0] if preparation.output is None else preparation.output
        if self._output not in outputs:
            raise InvalidInput(f"The encoder {name} has the outputs {', '.join(outputs)}, not {self._output!r}.")
        self.inputs = {tensor.name: tensor for tensor in self._session.get_inputs()}
        for tensor in self.inputs.values():
            if not tensor.shape or (isinstance(tensor.shape[0], int) and tensor.shape[0] != 1):
                raise InvalidInput(
                    f"The encoder {name} must take one row at a time, but its input {tensor.name!r} has the shape "
                    f"{tensor.shape}."
                )

    @property
    def only_input(self) -> str:
        """The input for images and tables. Errors: `InvalidInput` if there are several."""
        if len(self.inputs) != 1:
            raise InvalidInput(f"The encoder {self.name} must have one input, got {', '.join(self.inputs)}.")
        return next(iter(self.inputs))

    def features(self, row: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Return features of one row, float32 (features,). row: a value of every input.

        They may not be finite. Errors: `InvalidInput` for a row of another shape or type than the network takes.
        """
        try:
            (output,) = self._session.run([self._output], dict(row))
        except Exception as error:  # onnxruntime's message is about tensors and nodes
            raise InvalidInput(self._difference(row)) from error
        pooled = self.preparation.pooled(np.asarray(output))
        part, power = np.frexp(pooled)
        return np.ldexp(np.rint(np.ldexp(part, _BITS)), power - _BITS).astype(np.float32)

    def _difference(self, row: Mapping[str, NDArray[Any]]) -> str:
        """Return the given and the expected shape, for the first input where they differ."""
        names = list(row)
        differ = [name for name in names if name in self.inputs and not _fits(row[name], self.inputs[name])]
        name = (differ or names)[0]
        given = _in_words(row[name].shape, str(row[name].dtype))
        if name not in self.inputs:
            return f"The encoder {self.name} has the inputs {', '.join(self.inputs)}, not {name!r}."
        expected = self.inputs[name]
        taken = _in_words(expected.shape, expected.type.removeprefix("tensor(").removesuffix(")"))
        remedy = {
            "image": f"see size and layout in {self.name}.toml",
            "table": "give it as many columns of numbers as it takes",
            "text": f"see max_length in {self.name}.toml",
        }[self.preparation.kind]
        if differ:
            return f"The encoder {self.name} takes {taken} as {name!r}, and was given {given}: {remedy}."
        return f"The encoder {self.name}, which takes {taken} as {name!r}, fails on {given}: {remedy}."


def files_of(model: Path) -> list[Path]:
    """Return the files of an ONNX model: itself, and data files in the same folder.

    Errors: `InvalidInput` for a model that cannot be read, with operators outside of ONNX or that draw at random (even
    in a branch), or with data files in another folder.
    """
    try:
        loaded = onnx.load(str(model), load_external_data=False)
    except OSError as error:
        raise InvalidInput(f"The encoder {model} cannot be read: {(error.strerror or str(error)).lower()}.") from None
    except Exception as error:  # protobuf's own kind, which is not public
        raise InvalidInput(f"The encoder {model} is not an ONNX model ({type(error).__name__}).") from None
    foreign = sorted({one.domain for one in loaded.opset_import} - {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
    if foreign:
        raise InvalidInput(f"The encoder {model} must have ONNX's own operators only, got those of {foreign[0]!r}.")
    drawing = next((node.op_type for node in _within(loaded, onnx.NodeProto) if _draws(node)), None)
    if drawing is not None:
        raise InvalidInput(
            f"The encoder {model} must give a row the same features every time, but its operator {drawing} draws at "
            "random."
        )
    files = {Path(model)}
    for tensor in _within(loaded, onnx.TensorProto):
        locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
        for location in locations:
            if Path(location).name != location or location in ("", ".", ".."):
                raise InvalidInput(f"The encoder {model} must have its data beside it, not in {location!r}.")
            files.add(model.with_name(location))
    return sorted(files)


def checksums_of(files: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file, by name. Errors: `InvalidInput` for one that cannot be read."""
    return {file.name: digest_of_file(file) for file in files}


def _draws(node: Any) -> bool:
    # Dropout is the identity unless its third input says that the network is in training.
    return node.op_type in _DRAWING or (node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] != "")


def _within(message: Any, kind: type) -> Iterator[Any]:
    """Yield all messages of a kind in a model, including those in branches, loops and functions."""
    if isinstance(message, kind):
        yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        # One message stands for itself, several come as a sequence.
        for one in [value] if hasattr(value, "ListFields") else value:
            if hasattr(one, "ListFields"):
                yield from _within(one, kind)


def _fits(value: NDArray[Any], expected: Any) -> bool:
    same = len(expected.shape) == value.ndim and all(
        not isinstance(size, int) or size == own for size, own in zip(expected.shape, value.shape, strict=True)
    )
    kind = {"float32": "float", "float64": "double"}.get(str(value.dtype), str(value.dtype))
    return same and expected.type == f"tensor({kind})"


def _in_words(shape: Sequence[Any], kind: str) -> str:
    kind = {"float": "float32", "double": "float64"}.get(kind, kind)
    return f"{' x '.join('any' if size is None else str(size) for size in shape) or 'one number'} of {kind}"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200].rstrip(".")
