"""Texts to embeddings by an ONNX network and the tokenizer beside it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.features.frozen import network_identity, onnx_file, open_network
from ostrakon.features.sentences import TextEncoder
from ostrakon.validation import InvalidInput

_TOKENS, _MASK, _TYPES = "input_ids", "attention_mask", "token_type_ids"


class OnnxText(TextEncoder):
    """Texts to embeddings of length 1, by a network in an ONNX file.

    Parameters
    ----------
    how : str
        "onnx:FILE", of the kind text.

    Raises
    ------
    InvalidInput
        For a network or a tokenizer that cannot be read, and for other inputs.

    Notes
    -----
    The network's inputs are among input_ids, attention_mask and token_type_ids, whole numbers of shape (1, tokens); a
    text longer than the preparation's max_length is cut, and nothing is padded.

    Guarantee: as `OnnxNetwork`: a text's embedding depends on that text alone.
    """

    def __init__(self, how: str) -> None:
        self.how = how
        self._open()
        self.width = len(self._encode_one("a text"))

    def _open(self) -> None:
        from tokenizers import Tokenizer

        self.network, self.checksums = open_network(self.how)
        file = onnx_file(self.how)
        assert file is not None
        try:
            self._tokenizer = Tokenizer.from_file(str(file.with_name("tokenizer.json")))
        except Exception as error:  # the tokenizer raises what its own parser raises
            raise InvalidInput(f"{file.with_name('tokenizer.json')} is not a tokenizer ({error}).") from None
        other = [name for name in self.network.inputs if name not in (_TOKENS, _MASK, _TYPES)]
        if other:
            raise InvalidInput(f"The encoder {file} may read {_TOKENS}, {_MASK} and {_TYPES}, got {other[0]!r}.")
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self.network.preparation.max_length)
        self._last = {}

    def _encode_one(self, text: str) -> NDArray[np.float32]:
        encoded = self._tokenizer.encode(text)
        # Some tokenizers return nothing for a text without words.
        values = {
            _TOKENS: encoded.ids or [0],
            _MASK: encoded.attention_mask or [1],
            _TYPES: encoded.type_ids or [0],
        }
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
        row = {
            name: np.array([values[name]], kinds.get(given.type, np.int64))
            for name, given in self.network.inputs.items()
        }
        # What is not finite must not stop a run on private texts.
        features = np.nan_to_num(self.network.features(row)).astype(np.float64)
        length = float(np.sqrt(features @ features))
        return (features / length if length else features).astype(np.float32)

    def in_words(self, trained_on: str | None = None) -> str:
        """Return the network, its checksums and its training data, in the operator's words."""
        return f"{self.identity()}; frozen; trained on: {trained_on or 'unknown'}"

    def identity(self) -> str:
        """Return the network, its checksums and its preparation, for recipients that compute the same embeddings."""
        return network_identity(self.network, self.checksums)

    def __getstate__(self) -> dict[str, Any]:
        return {"how": self.how, "checksums": self.checksums, "width": self.width}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.how, self.width = state["how"], state["width"]
        self._open()
        if self.checksums != state["checksums"]:
            raise InvalidInput(f"The encoder {self.how} must be the one that the run began with, and is another.")
