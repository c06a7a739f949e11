"""What the learners see of a row: features learned from the public rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ostrakon.public.representation import Representation, default_representation, learn_representation


@dataclass(frozen=True, kw_only=True)
class View:
    """A representation of the public pool.

    representation: the frozen map. fitted: the scikit-learn transformer behind it, None where it is something else.
    public: features of the pool, (pool, features).
    """

    representation: Representation
    fitted: Any
    public: Any
    name: str

    def transform(self, X: Any) -> Any:
        """Features of other rows."""
        return self.representation.transform(X)


def view_of(X_public: Any, choice: Any = "auto", *, seed: int = 0) -> View:
    """Learn the representation `choice` ("auto", a name of `learn_representation`, a transformer) from the pool.

    Guarantee: a function of public rows alone, so it costs no privacy.
    """
    name = choice if isinstance(choice, str) else type(choice).__name__
    if name == "auto":
        name = default_representation(X_public)
    learned = learn_representation(choice, X_public, random_state=seed)
    owner = getattr(learned, "_transformer", None)
    return View(
        representation=learned,
        fitted=owner if hasattr(owner, "get_params") else None,
        public=learned.transform(X_public),
        name=name,
    )
