"""Small ONNX encoders of pictures, tables and texts, with the preparation beside them."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

WEIGHTS = np.random.default_rng(5).normal(size=(4, 3, 3, 3)).astype(np.float32)
TABLE = np.random.default_rng(6).normal(size=(3, 5)).astype(np.float32)
WORDS = np.random.default_rng(7).normal(size=(30, 4)).astype(np.float32)

IMAGE_TOML = 'kind = "image"\nsize = 8\nmean = [0.5, 0.5, 0.5]\ndeviation = [0.25, 0.25, 0.25]\npooling = "mean"\n'


def model(nodes, inputs, outputs, constants, *, domains=("",)):
    """A model of these nodes; inputs, outputs: name → (type, shape)."""
    values = [[helper.make_tensor_value_info(name, *told) for name, told in each.items()] for each in (inputs, outputs)]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "tiny", *values, held)
    opsets = [helper.make_opsetid(domain, 17 if not domain else 1) for domain in domains]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def pictures(rows="rows"):
    """Convolution and ReLU: (rows, 3, height, width) to (rows, 4, height - 2, width - 2)."""
    return model(
        [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Relu", ["c"], ["features"])],
        {"x": (TensorProto.FLOAT, [rows, 3, "h", "w"])},
        {"features": (TensorProto.FLOAT, None)},
        {"w": WEIGHTS},
    )


def numbers():
    """A linear map of three numbers to five."""
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["features"])],
        {"x": (TensorProto.FLOAT, ["rows", 3])},
        {"features": (TensorProto.FLOAT, ["rows", 5])},
        {"w": TABLE},
    )


def words():
    """Embeddings of tokens, times the mask."""
    return model(
        [
            helper.make_node("Gather", ["w", "input_ids"], ["seen"]),
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
            helper.make_node("Mul", ["seen", "column"], ["tokens"]),
        ],
        {"input_ids": (TensorProto.INT64, ["rows", "n"]), "attention_mask": (TensorProto.INT64, ["rows", "n"])},
        {"tokens": (TensorProto.FLOAT, ["rows", "n", 4])},
        {"w": WORDS, "last": np.array([-1])},
    )


def written(folder: Path, made, toml: str, **options) -> str:
    """The representation onnx:FILE of a model written to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save(made, str(folder / "tiny.onnx"), **options)
    (folder / "tiny.onnx.toml").write_text(toml)
    return f"onnx:{folder / 'tiny.onnx'}"
