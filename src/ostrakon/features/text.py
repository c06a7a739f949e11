"""Columns of free text in tables as numbers, by a frozen sentence encoder or by TF-IDF of the public rows."""

from pathlib import Path
from typing import Any, Literal, Self

import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer

from ostrakon.data.columns import is_text, word
from ostrakon.data.embeddings import as_columns
from ostrakon.features.frozen import ONNX, onnx_file, reads_words, require_frozen
from ostrakon.features.onnx_text import OnnxText
from ostrakon.features.recipe import Recipe
from ostrakon.features.sentences import SentenceEncoder, require_encoder
from ostrakon.validation import InvalidInput

MOST_TERMS = 2048
_FOLDER = "text:"


def reads_text(representation: Any) -> bool:
    """Return whether a representation reads columns of free text: text, text:FOLDER, tfidf, or onnx:FILE of texts."""
    return isinstance(representation, str) and (
        representation in ("text", "tfidf")
        or (representation.startswith(_FOLDER) and representation != _FOLDER)
        or reads_words(representation)
    )


def holds_text_alone(X_public: Any) -> bool:
    """Return whether public rows are a frame with columns of free text alone."""
    return (
        hasattr(X_public, "iloc") and X_public.shape[1] > 0 and all(is_text(column) for _, column in X_public.items())
    )


def default_text() -> Literal["text", "tfidf"]:
    """Return the meaning of "auto" for texts: the sentence encoder if it is installed, else TF-IDF."""
    try:
        require_encoder(None)
    except InvalidInput:
        return "tfidf"
    return "text"


def require_text_encoder(representation: str) -> None:
    """Refuse a representation of text whose encoder is not installed."""
    if reads_words(representation):
        require_frozen(representation)
    elif representation != "tfidf":
        require_encoder(_folder(representation))


def _folder(how: str) -> str | None:
    return how.removeprefix(_FOLDER) if how.startswith(_FOLDER) else None


class TextColumns(TransformerMixin, BaseEstimator):
    """A transformer that replaces columns of free text by their encoding, name.0, name.1, …

    Parameters
    ----------
    how : str, default "text"
        "text", "text:FOLDER" (see `SentenceEncoder`), "onnx:FILE" (see `OnnxText`) or "tfidf": the 2,048 most frequent
        words and pairs of words that occur in two public rows, weighted by scikit-learn's `TfidfVectorizer`.

    Raises
    ------
    InvalidInput
        If no column is free text, and if no word occurs twice.

    Notes
    -----
    The rows of `fit` decide which columns are free text, as when tables are read. A missing text is an empty one.

    Guarantee: the numbers of a row depend on that row and on the rows of `fit` alone, to the last bit.
    """

    def __init__(self, how: str = "text") -> None:
        self.how = how

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the columns of text; for tfidf, count their words."""
        table = _frame(X)
        self.texts_ = tuple(str(name) for name in table if is_text(table[name]))
        if not self.texts_:
            raise InvalidInput(
                f"The representation {self.how} needs a column of free text, and no public column is one."
            )
        if self.how == "tfidf":
            self.encoders_ = {name: _counted(name, _texts(table[name])) for name in self.texts_}
        else:
            encoder = OnnxText(self.how) if reads_words(self.how) else SentenceEncoder(_folder(self.how))
            self.encoders_ = dict.fromkeys(self.texts_, encoder)
        return self

    def transform(self, X: Any) -> pd.DataFrame:
        """Return the frame with the numbers of its texts."""
        table = _frame(X)
        absent = [name for name in self.texts_ if name not in table.columns]
        if absent:
            raise InvalidInput(f"X must have the columns of the public table; missing: {', '.join(absent)}.")
        parts: list[pd.DataFrame] = [table.drop(columns=list(self.texts_))]
        for name in self.texts_:
            encoder, texts = self.encoders_[name], _texts(table[name])
            weighed = isinstance(encoder, TfidfVectorizer)
            encoded = encoder.transform(texts).toarray() if weighed else encoder.encode(texts)
            parts.append(as_columns(name, encoded).set_axis(table.index, axis=0))
        return pd.concat(parts, axis=1)

    def described(self, name: str) -> dict[str, Any]:
        """Return what a recipient needs to encode the column `name`: an entry of student.json."""
        encoder = self.encoders_[name]
        if not isinstance(encoder, TfidfVectorizer):
            text = f"{encoder.identity()}, scaled to length 1"
            return {"name": name, "kind": "embedding", "width": encoder.width, "encoder": text}
        terms = encoder.get_feature_names_out().tolist()
        return {"name": name, "kind": "tfidf", "width": len(terms), "terms": terms, "idf": encoder.idf_.tolist()}

    def recipe(self) -> Recipe | None:
        """Return how a recipient computes the embeddings; None if the student reads the texts themselves."""
        if not self.frozen:
            return None
        kind, needs, given, files = "SentenceEncoder", "ostrakon[text]", "", ()
        folder, file = _folder(self.how), onnx_file(self.how)
        if file is not None:
            kind, given, files = "OnnxText", repr(f"{ONNX}{file.name}"), tuple(self._encoder.checksums)
        elif folder is not None:
            given, files = repr(Path(folder).name), (Path(folder).name,)
        return Recipe(
            needs=(needs,),
            files=files,
            lines=(
                f"from ostrakon.features import {kind}",
                f"encoder = {kind}({given})",
                *(f"rows[{name!r}] = list(encoder.encode(rows[{name!r}]))" for name in self.texts_),
                "X = rows",
            ),
        )

    @property
    def _encoder(self) -> Any:
        return self.encoders_[self.texts_[0]]

    @property
    def frozen(self) -> bool:
        """Whether the encoder is pretrained, rather than learned from the public rows."""
        return self.how != "tfidf"

    def in_words(self, trained_on: str | None = None) -> str:
        """Return the frozen encoder, its checksum and its training data; trained_on: the operator's words for these."""
        assert self.frozen
        return self._encoder.in_words(trained_on)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "encoders_")


def _counted(name: str, texts: list[str]) -> TfidfVectorizer:
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=MOST_TERMS, sublinear_tf=True)
    try:
        return vectorizer.fit(texts)
    except ValueError as error:
        raise InvalidInput(
            f"The representation tfidf needs words that occur in two public rows; {name!r} has none."
        ) from error


def _frame(X: Any) -> pd.DataFrame:
    if not hasattr(X, "iloc"):
        raise InvalidInput(f"X must be a table with named columns where text is read, got {type(X).__name__}.")
    return X.set_axis([str(name) for name in X.columns], axis=1)


def _texts(column: pd.Series) -> list[str]:
    return ["" if cell is None or pd.isna(cell) else word(cell) for cell in column.astype(object)]
