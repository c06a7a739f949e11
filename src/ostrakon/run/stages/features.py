"""The features of rows, learned from the public rows alone."""

from dataclasses import dataclass
from typing import Any

from ostrakon.features.frozen import FrozenEncoder
from ostrakon.features.representation import (
    Representation,
    default_representation,
    is_embedded,
    is_linear,
    learn_representation,
)

NO_ENCODER = "none of ours: features came as they are"
"""The encoder, in a statement, of features that were given."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A representation of the public pool.

    Parameters
    ----------
    representation : Representation
    fitted : transformer or None
        Its scikit-learn transformer, None if it has another kind.
    public : array, shape (pool, features)
        Features of the pool.
    name : str
    linear, embedded : bool
        See `ostrakon.features.representation.is_linear` and `is_embedded`.
    """

    representation: Representation
    fitted: Any
    public: Any
    name: str
    linear: bool
    embedded: bool

    @property
    def texts(self) -> dict[str, str]:
        """The kind, text, of every column that is read as text, by name."""
        encoder = self.representation.encoder
        return {} if encoder is None else dict.fromkeys(encoder.texts_, "text")

    @property
    def is_like_a_table(self) -> bool:
        """Whether learners see features, not images: those of a frozen network, or linearly separable ones."""
        return isinstance(self.representation.encoder, FrozenEncoder) or self.linear

    def rows_in_words(self, rows: str) -> str:
        """Return a description of the student's input. rows: a description of raw rows."""
        encoder = self.representation.encoder
        if not isinstance(encoder, FrozenEncoder):
            return rows
        return f"the {encoder.width_} numbers that {encoder.name}, which is not part of it, makes of {rows}"

    def encoder_facts(self, trained_on: str | None = None) -> dict[str, str]:
        """Return the entry "encoder" of a statement; {} if no encoder computed the features.

        trained_on: its training data, by the operator; None: as its authors say, or unknown.
        """
        encoder = self.representation.encoder
        if encoder is not None:
            return {"encoder": encoder.in_words(trained_on)} if encoder.frozen else {}
        if self.name == "embeddings" or trained_on is not None:
            return {"encoder": f"{NO_ENCODER}; trained on: {trained_on or 'unknown'}"}
        return {}

    def transform(self, X: Any) -> Any:
        """Return features of other rows."""
        return self.representation.transform(X)


def view_of(X_public: Any, choice: Any = "auto", *, seed: int = 0) -> View:
    """Learn the representation `choice` ("auto", a name of `learn_representation`, a transformer) from the pool.

    Guarantee: a function of public rows alone, so it costs no privacy.
    """
    name = choice if isinstance(choice, str) else type(choice).__name__
    if name == "auto":
        name = default_representation(X_public)
    representation = learn_representation(choice, X_public, random_state=seed)
    transformer = representation.transformer
    return View(
        representation=representation,
        fitted=transformer if hasattr(transformer, "get_params") else None,
        public=representation.transform(X_public),
        name=name,
        linear=is_linear(name, X_public),
        embedded=is_embedded(choice, X_public),
    )
