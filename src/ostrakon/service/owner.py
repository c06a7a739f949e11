"""One owner of a service over several: the votes of its own teachers, for the desk, each block paid from its ledger."""

import base64
import dataclasses
import hashlib
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.accounting.data_independent.worst_case import worst_case
from ostrakon.ledger.fits import Refused
from ostrakon.mechanisms.confident_gnmax import ConfidentGNMax
from ostrakon.planning.plan import Plan, shape
from ostrakon.run.budget import Budget
from ostrakon.run.storage import Storage
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import Votes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """What the desk says of its blocks: the mechanism over the votes of all owners, and the size of a block.

    Parameters
    ----------
    threshold, sigma1, sigma2 : float
        As of `ConfidentGNMax`.
    teachers : int
        Of all owners together.
    queries, answers : int
        The most rows of one block, and the most answers.
    """

    threshold: float
    sigma1: float
    sigma2: float
    teachers: int
    queries: int
    answers: int

    def plan(self, plan: Plan) -> Plan:
        """Return the plan of one block, priced here. It has no statement; the account charges for it.

        Parameters
        ----------
        plan : Plan
            Of the run that trained the teachers.

        Raises
        ------
        InvalidInput
            If a number is not allowed.
        """
        mechanism = ConfidentGNMax(threshold=self.threshold, sigma1=self.sigma1, sigma2=self.sigma2)
        # With fewer teachers than vote here the price would be too low.
        teachers = whole("teachers", self.teachers, at_least=plan.teachers, at_most=10**7)
        sizes: dict[str, Any] = {
            "queries": whole("queries", self.queries, at_least=1, at_most=200_000),
            "max_answers": whole("answers", self.answers, at_least=1, at_most=100_000),
            "delta": plan.delta,
        }
        of_votes: dict[str, Any] = shape(False, teachers=teachers, classes=plan.classes)
        bound = worst_case(mechanism, **sizes, **of_votes, adaptive=True)
        return dataclasses.replace(
            plan, interactive=False, mechanism=mechanism, teachers=teachers, bound=bound, **sizes
        )


def read_features(text: str) -> NDArray[Any]:
    """Read the features of rows from a NumPy file in base64.

    Raises
    ------
    InvalidInput
        For anything else.
    """
    try:
        features = np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False)
        if isinstance(features, np.ndarray) and features.ndim and features.dtype.kind in "fiub":
            return features
    except Exception:  # a damaged file raises what NumPy's reader raises
        pass
    raise InvalidInput(f"features must be a NumPy file of numbers in base64, got {len(text)} characters that are not.")


class OwnerVotes:
    """Count the votes of this owner's teachers for the desk, which adds those of other owners and the noise.

    Parameters
    ----------
    plan : Plan
        Of the run that trained the teachers.
    classes : tuple of str
    public : array
        Features of the public rows.
    teachers : object
        With a method `predict`.
    budget : Budget
        Of the run, in this owner's account.

    Notes
    -----
    Guarantee: none by itself, because the desk gets the counts without noise. If the desk adds the noise that it
    says, all its answers are within the cap of this owner's account for the records of this owner: each block is
    reserved here at its worst case before a vote of it leaves, and has at most as many different rows as were paid.
    """

    def __init__(self, *, plan: Plan, classes: tuple[str, ...], public: Any, teachers: Any, budget: Budget) -> None:
        self._plan = plan
        self._classes = classes
        public = np.ascontiguousarray(public)
        self._row = (public.dtype, public.shape[1:])
        self._finite = _is_finite(public)
        self._digest = hashlib.sha256(f"{self._row}".encode() + public.tobytes()).hexdigest()
        self.teachers = teachers
        self._budget = budget
        self._block: tuple[str, Terms] | None = None
        self._given: dict[bytes, NDArray[np.int64]] = {}
        self._priced: tuple[Terms, Budget] | None = None
        self._paying: tuple[tuple[str, Terms], Budget] | None = None

    def facts(self) -> dict[str, Any]:
        """Return what the desk compares before it begins: public facts."""
        cap = self._budget.account.cap
        return {
            "classes": list(self._classes),
            "features": self._digest,
            "teachers": self._plan.teachers,
            "unit": self._budget.account.unit,
            "epsilon": cap.epsilon,
            "delta": cap.delta,
        }

    @property
    def no_rows(self) -> NDArray[Any]:
        """The features of no row at all."""
        dtype, shape = self._row
        return np.empty((0, *shape), dtype)

    def blocks_left(self, terms: Terms) -> int:
        """Return how many blocks of these terms fit into the account, as of this process's last reservation.

        Raises
        ------
        InvalidInput
            If a number of `terms` is not allowed.
        """
        return self._of(terms).times()

    def votes(self, block: str, terms: Terms, features: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
        """Count the votes on rows of a block, which is paid first.

        Parameters
        ----------
        block : str
            The desk's name of the block. A new name ends the block before, and another one is paid.
        terms : Terms
        features : array, shape (rows, ...)
            None at all: the block is paid, and nothing is asked.

        Returns
        -------
        tuple of (int64 array of shape (rows, classes), int)
            The counts, and the number of further blocks that fit.

        Raises
        ------
        Refused
            If the account has no room for the block.
        InvalidInput
            For other features than those of the run, and more different rows than the block has.
        """
        if (features.dtype, features.shape[1:]) != self._row:
            raise InvalidInput(f"features must be {self._row}, got {(features.dtype, features.shape[1:])}.")
        if self._finite and not _is_finite(features):
            raise InvalidInput("features must be finite, as those of the public rows are, and some are not.")
        if self._block != (block, terms):
            self.close()
            if self._paying is None or self._paying[0] != (block, terms):
                self._paying = ((block, terms), self._of(terms).again(Storage()))
            # The next attempt finds a reservation that failed half way, by the same receipt.
            budget = self._paying[1]
            budget.reserve()
            self._priced, self._block, self._paying = (terms, budget), (block, terms), None
        keys = [row.tobytes() for row in features]
        new = {key: at for at, key in enumerate(keys) if key not in self._given}
        if len(self._given) + len(new) > terms.queries:
            raise InvalidInput(f"A block must have at most {terms.queries} different rows.")
        if new:
            predictions = self.teachers.predict(features[list(new.values())])
            counts = np.asarray(Votes.from_predictions(predictions, classes=self._plan.classes).counts)
            self._given |= dict(zip(new, counts, strict=True))
        histograms = [self._given[key] for key in keys]
        return np.array(histograms, np.int64).reshape(len(keys), self._plan.classes), self.blocks_left(terms)

    def close(self) -> None:
        """End the current block."""
        if self._block is not None:
            assert self._priced is not None
            self._priced[1].settle_bytes(b"".join(row.tobytes() for row in self._given.values()))
            self._block, self._given = None, {}

    def _of(self, terms: Terms) -> Budget:
        """Return the budget of blocks of these terms."""
        if self._priced is None or self._priced[0] != terms:
            if self._block is not None:
                self.close()
            plan = terms.plan(self._plan)
            if not plan.claimable:
                raise Refused("A block with these terms has no worst case.")
            self._priced = (terms, self._budget.of_plan(plan, Storage()))
        return self._priced[1]


def _is_finite(features: NDArray[Any]) -> bool:
    return features.dtype.kind != "f" or bool(np.isfinite(features).all())
