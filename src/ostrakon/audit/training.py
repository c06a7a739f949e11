"""Audits of any trainer, ours or other people's: canaries in one run, or repeated runs with and without one record."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ostrakon.audit.betting import Bets
from ostrakon.audit.one_run import largest_refuted_parameter, refutes_trade_off
from ostrakon.validation import InvalidInput, fraction, non_negative, one_of, quote, whole

Rows = tuple[NDArray[Any], NDArray[Any]]
Train = Callable[[NDArray[Any], NDArray[Any]], Any]
Score = Callable[[Any, NDArray[Any], NDArray[Any]], ArrayLike]
Neighbours = Literal["add-remove", "replace"]

NEIGHBOURS: tuple[Neighbours, ...] = ("add-remove", "replace")
_LARGEST_EPSILON = 50.0
_GUESSED = ((0.5, 0.8), (0.1, 0.2))
"""Shares of the canaries to guess, and of the error that each bound may have.

Many guesses show a trainer that leaks; the surest show one that is as private as it says.
"""


@dataclass(frozen=True, kw_only=True)
class TrainingAudit:
    """The result of an audit of a trainer.

    Parameters
    ----------
    claimed, delta : float
        The claim.
    lower_bound : float
        The trainer's epsilon at `delta` is at least this with probability `confidence`.
    confidence : float
    neighbours : {"add-remove", "replace"}
        What claim and lower bound refer to.
    runs : int
        Models trained.
    canaries : int
        Records whose influence was looked for.
    guesses, correct : int or None
        Of one run: the number of guesses that certified most, and of right ones. None for repeated runs.
    """

    claimed: float
    delta: float
    lower_bound: float
    confidence: float
    neighbours: Neighbours
    runs: int
    canaries: int
    guesses: int | None = None
    correct: int | None = None

    @property
    def refuted(self) -> bool:
        """Whether the claim is false. A true claim is refuted with probability 1 - confidence at most."""
        return not self.claimed >= self.lower_bound

    @property
    def verdict(self) -> str:
        """One sentence."""
        basis = (
            f"{self.runs} trained models" if self.guesses is None else f"{self.correct} right of {self.guesses} guesses"
        )
        setting = f"epsilon {self.claimed:.4g} at delta {self.delta:g} (neighbours: {self.neighbours})"
        evidence = (
            f"{basis} certify an epsilon of at least {self.lower_bound:.4g} with {100 * self.confidence:g}% confidence"
        )
        if self.refuted:
            return f"The claim of {setting} is refuted: {evidence}."
        return f"The claim of {setting} is not refuted: {evidence}. An audit can refute a claim, never prove it."

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "refuted": self.refuted, "verdict": self.verdict}


def audit_training(
    train: Train,
    data: tuple[ArrayLike, ArrayLike],
    *,
    claimed: tuple[float, float],
    neighbours: Neighbours,
    rng: np.random.Generator,
    canaries: int | tuple[ArrayLike, ArrayLike] = 200,
    score: Score | None = None,
    runs: int = 1,
    confidence: float = 0.95,
) -> TrainingAudit:
    """Attack a trainer that claims (epsilon, delta)-differential privacy.

    Parameters
    ----------
    train : callable
        From rows, shape (n, ...), and labels, shape (n,), to a model. It must draw fresh noise in every call.
    data : (X, y)
        Ordinary rows and labels, which are in every training set.
    claimed : (epsilon, delta)
        epsilon at least 0, delta in [0, 1).
    neighbours : {"add-remove", "replace"}
        What the claim refers to: one record more or less, or one record replaced.
    rng : numpy.random.Generator
        Draws canaries and coins, never the trainer's noise.
    canaries : int or (X, y), default 200
        Records to look for. A number takes that many rows of `data`, each with a label of another class. In repeated
        runs only the first is used.
    score : callable, optional
        From a model, canary rows and labels to finite numbers, shape (canaries,): large if the record was used.
        Default: the log probability of the label by `predict_proba`, whose columns are the sorted labels of `data`.
    runs : int, default 1
        1: a fair coin for every canary decides whether it is used, and one model is trained. More: pairs of models are
        trained with and without the first canary, at most `runs` models, until the claim is refuted.
    confidence : float in (0, 1), default 0.95

    Returns
    -------
    TrainingAudit

    Raises
    ------
    InvalidInput
        For values outside these ranges, data of different lengths, or scores that are not finite.

    Notes
    -----
    For "replace" the other version of a canary has another label: the same row with the label of `data`'s next class.

    Guarantee: a trainer that is (epsilon, delta)-DP for these neighbours has `lower_bound` above epsilon with
    probability at most 1 - confidence, for any canaries and scores. One run: the larger bound by `refutes_trade_off`
    of two numbers of guesses, half of the canaries and a tenth, with four fifths and a fifth of the error. Repeated
    runs: `ostrakon.audit.betting`, at any stopping time.

    References
    ----------
    Steinke, Nasr and Jagielski 2023 (arXiv 2305.08846); Mahloujifar, Melis and Chaudhuri 2024 (arXiv 2410.22235);
    Ville 1939.

    Examples
    --------
    >>> def mean(X, y):  # releases the sum of the rows without noise
    ...     return X.sum(axis=0)
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(50, 400)), rng.integers(2, size=50)
    >>> found = audit_training(mean, (X, y), claimed=(1.0, 1e-5), neighbours="add-remove", rng=rng,
    ...                        canaries=(rng.normal(size=(40, 400)), np.zeros(40)), score=lambda m, X, y: X @ m)
    >>> found.refuted
    True
    """
    epsilon, delta = _claim(claimed)
    one_of("neighbours", neighbours, NEIGHBOURS)
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy.random.Generator, got {quote(rng)}.")
    fraction("confidence", confidence)
    whole("runs", runs, at_least=1)
    rows = _rows("data", data)
    classes = np.unique(rows[1])
    targets = _canaries(canaries, rows, classes, rng)
    others = _other_labels(targets[1], classes) if neighbours == "replace" else None
    game = _Game(train=train, data=rows, canaries=targets, others=others, score=score or _log_probability(classes))
    claim = {"claimed": epsilon, "delta": delta, "confidence": confidence, "neighbours": neighbours}
    if runs == 1:
        return TrainingAudit(**claim, **_one_run(game, delta, confidence, rng))
    return TrainingAudit(**claim, **_repeated(game, epsilon, delta, confidence, runs))


@dataclass(frozen=True, kw_only=True)
class _Game:
    """Training with a choice of canaries, and the scores of all of them."""

    train: Train
    data: Rows
    canaries: Rows
    others: NDArray[Any] | None
    score: Score

    def __len__(self) -> int:
        return len(self.canaries[1])

    def play(self, used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the scores of the canaries, (canaries,), of a model trained with those that are `used`."""
        (X, y), (rows, labels) = self.data, self.canaries
        if self.others is None:
            rows, labels = rows[used], labels[used]
        else:
            labels = np.where(used, labels, self.others)
        model = self.train(np.concatenate([X, rows]), np.concatenate([y, labels]))
        scores = self._scored(model, self.canaries[1])
        return scores if self.others is None else scores - self._scored(model, self.others)

    def first(self, used: bool) -> float:
        """Return the score of the first canary for a model trained with it or without it (or with its other
        version)."""
        one = _Game(
            train=self.train,
            data=self.data,
            canaries=(self.canaries[0][:1], self.canaries[1][:1]),
            others=None if self.others is None else self.others[:1],
            score=self.score,
        )
        return float(one.play(np.array([used]))[0])

    def _scored(self, model: Any, labels: NDArray[Any]) -> NDArray[np.float64]:
        scores = np.asarray(self.score(model, self.canaries[0], labels), dtype=np.float64)
        if scores.shape != (len(self),) or not np.isfinite(scores).all():
            raise InvalidInput(f"score must give {len(self)} finite numbers, got the shape {scores.shape}.")
        return scores


def _one_run(game: _Game, delta: float, confidence: float, rng: np.random.Generator) -> dict[str, Any]:
    coins = rng.random(len(game)) < 0.5
    scores = game.play(coins)
    # The centre depends on the model alone, so guesses do too.
    centred = scores - np.median(scores)
    surest = np.argsort(-np.abs(centred), kind="stable")
    right = np.cumsum((centred[surest] > 0) == coins[surest])

    def bounded(guesses: int, error: float) -> dict[str, Any]:
        counts: dict[str, int] = {"correct": int(right[guesses - 1]), "guesses": guesses, "canaries": len(game)}

        def refuted(epsilon: float) -> bool:
            return refutes_trade_off(_inverse_trade_off(epsilon, delta), **counts, error=error)

        return {"lower_bound": largest_refuted_parameter(refuted, limit=_LARGEST_EPSILON), "runs": 1, **counts}

    # The parts of the error add up to all of it, so the larger bound holds with the confidence (union bound).
    bounds = [bounded(max(1, round(share * len(game))), part * (1 - confidence)) for share, part in _GUESSED]
    return max(bounds, key=lambda one: one["lower_bound"])


def _repeated(game: _Game, epsilon: float, delta: float, confidence: float, runs: int) -> dict[str, Any]:
    bets = Bets(delta=delta, error=1 - confidence)
    while bets.pairs < max(1, runs // 2) and not bets.bound > epsilon:
        bets.add(used=game.first(True), unused=game.first(False))
    return {"lower_bound": bets.bound, "runs": 2 * bets.pairs, "canaries": 1}


def _inverse_trade_off(epsilon: float, delta: float) -> Callable[[float], float]:
    """Return g^-1 of `refutes_trade_off` for (epsilon, delta)-DP, rounded down."""
    factor = math.exp(epsilon)

    def inverse(share: float) -> float:
        least = max(0.0, (share - delta) / factor, 1 - delta - factor * (1 - share))
        return least * (1 - 1e-12)

    return inverse


def _claim(claimed: Any) -> tuple[float, float]:
    if not isinstance(claimed, tuple) or len(claimed) != 2:
        raise InvalidInput(f"claimed must be a pair (epsilon, delta), got {quote(claimed)}.")
    epsilon, delta = claimed
    return non_negative("epsilon", epsilon), 0.0 if delta == 0 and not isinstance(delta, bool) else fraction(
        "delta", delta
    )


def _rows(name: str, value: Any) -> Rows:
    if not isinstance(value, tuple) or len(value) != 2:
        raise InvalidInput(f"{name} must be a pair (X, y), got {quote(value)}.")
    X, y = (np.asarray(part) for part in value)
    if not X.ndim or y.ndim != 1 or len(X) != len(y) or not len(y):
        raise InvalidInput(
            f"{name} must be rows and as many labels, at least one, got the shapes {X.shape} and {y.shape}."
        )
    return X, y


def _canaries(value: Any, data: Rows, classes: NDArray[Any], rng: np.random.Generator) -> Rows:
    if isinstance(value, tuple):
        rows = _rows("canaries", value)
        if rows[0].shape[1:] != data[0].shape[1:]:
            raise InvalidInput(
                f"canaries must have rows of the shape {data[0].shape[1:]}, as data has, got {rows[0].shape[1:]}."
            )
        return rows
    number = whole("canaries", value, at_least=1, at_most=len(data[1]))
    if len(classes) < 2:
        raise InvalidInput("canaries must be given as (X, y) if data has labels of one class only.")
    chosen = rng.choice(len(data[1]), size=number, replace=False)
    return data[0][chosen], _other_labels(data[1][chosen], classes)


def _other_labels(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[Any]:
    """Return the next class of each label, cyclically."""
    if len(classes) < 2:
        raise InvalidInput("data must have labels of at least two classes, got one.")
    return classes[(np.searchsorted(classes, labels) + 1) % len(classes)]


def _log_probability(classes: NDArray[Any]) -> Score:
    def score(model: Any, X: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
        proba = np.asarray(model.predict_proba(X), dtype=np.float64)
        if proba.shape != (len(X), len(classes)):
            raise InvalidInput(
                f"predict_proba must give the shape {(len(X), len(classes))}, got {proba.shape}; give your own score."
            )
        position = np.clip(np.searchsorted(classes, y), 0, len(classes) - 1)
        return np.log(np.maximum(proba[np.arange(len(X)), position], 1e-300))

    return score
