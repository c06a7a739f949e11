"""PATERegressor: a quantity as the target, as a scikit-learn estimator."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ostrakon.data.domain import Domain
from ostrakon.data.frames import rows_of
from ostrakon.data.quantity import ENDS, Quantity
from ostrakon.mechanisms import Mechanism
from ostrakon.options.options import AUTO
from ostrakon.private_estimator import PrivateEstimator
from ostrakon.rows_in_memory import target_array, warn_outside
from ostrakon.run.inputs.private_data import Rows
from ostrakon.run.inputs.task import Task, target_fields
from ostrakon.run.spending import warn_of_searches
from ostrakon.validation import InvalidInput


class OutsideRange(UserWarning):
    """Some private values of the target are outside its public range, and are clipped. The message is private."""


# A dataclass only for its __init__: it stores its arguments as scikit-learn asks, and type checkers see them.
@dataclass(eq=False, repr=False)
class PATERegressor(RegressorMixin, PrivateEstimator):
    """An estimator of a quantity that learns from confidential data and releases a differentially private student.

    Every record adds its quantity, clipped to a public range, to noisy sums; a student learns from these sums and from
    public rows alone.

    Parameters
    ----------
    epsilon : float, positive, optional
        The noise is scaled so that the guarantee stays within it. Default: 2.
    range : tuple of (float, float)
        The lowest and the highest value of the target, in its unit; public, and required: it is never read from the
        data. Values outside are clipped.
    delta : float in (0, 1), optional
        Default: below 1 / number of records (or users).
    neighbours : {"replaced", "removed"}, optional
        What happens to one record (or user) between the data sets that epsilon compares; their number is public.
        Default: replaced.
    student : str or classifier, default "auto"
        Ridge regression from the sums; or a classifier that takes sample_weight and gives probabilities, such as
        "hist-gradient-boosting", which learns the estimates of that regression for the public rows.
    mechanism : str or Mechanism, default "auto"
        Which share of the cost pays for which sums: "quantity-gnmax(moments=0.8, errors=0.05)", or the object.
        `moments` is for the sums of features, `errors` for the counts of errors (0: no intervals), the rest for the
        sums by cell.
    n_queries : int, at least 1, optional
        Number of public rows for which sums of the nearest records are released. Default: what epsilon allows.
    ledger : str, optional
        URL of the ledger that reserves the cost of a fit before its noise is drawn.
    budget : float, positive, optional
        Total epsilon of all fits and runs on these data; opens an account in the ledger.
    ledger_account : str, optional
        Name of the account. Default: the one that the data are bound to.
    representation : str or estimator, default "auto"
        Features of a row, learned from public rows.
    trained_on : str, optional
        What the encoder or the given features were trained on, for the statement.
    query_strategy : {"representatives", "random", "all"} or callable, default "representatives"
        Which public rows the sums by cell belong to.
    allow_shared_rows : bool, default False
        Accept rows of X that are in X_public too. They are not protected.
    random_state : int, RandomState or None, default None
        Seed of the choice of public rows, never of noise.
    noise : numpy.random.Generator, optional
        Default: the cryptographic source. Another generator is for tests; the statement then says "not private".

    Attributes
    ----------
    statement_ : Statement
        What the release claims about privacy.
    released_ : estimator
        The student; it maps a raw row to an estimate.
    mechanism_ : Mechanism
        With its noise.
    queries_ : ndarray of int, shape (n_queries,)
        Places of public rows.
    counts_ : ndarray of shape (n_queries, 2)
        Noisy votes there, split between the low and the high end of the range.
    votes_ : object
        Private. Do not publish it, nor the fitted estimator, which contains it.

    Raises
    ------
    InvalidInput
        For bad parameters, and if `fit` gets no public rows.

    Notes
    -----
    Guarantee: `statement_.guarantee`, the (epsilon, delta)-differential privacy of all attributes except the private
    ones, where one record (or user) is replaced by another one, or removed (`neighbours`). It covers this fit and all
    earlier fits of this process together, unless users tell them apart (see `PATEClassifier`). Theorem:
    `QuantityGNMax`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2)); y = 10 + 3 * X[:, 0]
    >>> model = PATERegressor(epsilon=4.0, range=(0, 20), random_state=0)
    >>> model = model.fit(X, y, X_public=rng.normal(size=(300, 2)))
    >>> model.score(X, y) > 0.8
    True
    """

    epsilon: float | None = None
    _: KW_ONLY
    range: Any = None
    student: Any = AUTO
    mechanism: str | Mechanism = AUTO
    delta: float | None = None
    neighbours: str | None = None
    n_queries: int | None = None
    ledger: str | None = None
    budget: float | None = None
    ledger_account: str | None = None
    representation: Any = AUTO
    trained_on: str | None = None
    query_strategy: str = "representatives"
    allow_shared_rows: bool = False
    random_state: Any = None
    noise: np.random.Generator | None = None

    def fit(self, X: Any, y: ArrayLike, X_public: Any = None, *, users: ArrayLike | None = None) -> Self:
        """Sum (X, y) over the private rows under noise, and train the student on the sums and X_public.

        Parameters
        ----------
        X : array-like or frame of shape (n_rows, n_features), or images of shape (n_rows, height, width[, 3])
            Private rows.
        y : array-like of shape (n_rows,)
            The quantity of every row, finite numbers.
        X_public : same form as X
            Public rows, whose quantities are not needed.
        users : array-like of shape (n_rows,), optional
            The user of each private row. The guarantee then protects users instead of records.

        Returns
        -------
        PATERegressor
            The fitted estimator.

        Raises
        ------
        InvalidInput
            For rows, quantities or parameters that do not fit together, and where `ostrakon train` refuses to run.

        Notes
        -----
        Guarantee: `statement_.guarantee`, for what the class documentation names publishable.
        """
        warn_of_searches()
        if self.range is None:
            raise InvalidInput(
                "range must be given: the lowest and the highest value of the target, such as range=(0, 50), which are "
                "public; they are not read from y."
            )
        quantity = Quantity.of(self.range)
        if isinstance(X_public, Domain):
            raise InvalidInput("X_public must be public rows for a quantity, got a description of the columns.")
        given, numbers = self._checked(rows_of(X), y)
        given, own = self._public_part(given, X_public)
        values = quantity.numbers(numbers)
        task = Task(
            private=Rows(X=given, y=quantity.steps(values), users=None if users is None else np.asarray(users)),
            names=getattr(self, "feature_names_in_", None),
            **target_fields(quantity, ENDS),
            **own,
        )
        warn_outside(given, task, X=X, X_public=X_public)
        for sentence in quantity.clipped_in_words(float(((values < quantity.low) | (values > quantity.high)).mean())):
            warnings.warn(sentence, OutsideRange, stacklevel=2)
        self._run(task, self.noise)
        return self

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[np.float64]:
        """Give an interval for the quantity of every row, which holds it with a stated probability.

        Parameters
        ----------
        X : same form as in `fit`
        coverage : {0.8, 0.9, 0.95}, default 0.9
            The share of records, like the private ones, whose quantity is in their interval.

        Returns
        -------
        ndarray of shape (n_rows, 2)
            The lower and the upper end, within `range`; the whole range if the noise allows no shorter intervals.

        Raises
        ------
        InvalidInput
            For another coverage, and if no errors were counted, because the records were too few for the noise.

        Notes
        -----
        All intervals of one coverage have one width, but for the ends of the range. It comes from noisy counts of the
        errors of this student on the private records (`ostrakon.students.prediction_intervals`), which `statement_`
        covers. The coverage of private records holds in 95% of fits. It is a mean over all rows: where the quantity
        varies more, fewer are covered. Values outside of the range are replaced by its nearest end.
        """
        check_is_fitted(self)
        student: Any = self.released_
        return student.predict_interval(self._same_form(X), coverage)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        y = target_array(y)
        if hasattr(X, "shape") and len(y) != X.shape[0]:
            raise InvalidInput(f"y must have one value for each of the {X.shape[0]} rows of X, got {len(y)}.")
        if len(y) == 1:
            raise InvalidInput("X must have at least two rows, got one sample.")
        if hasattr(X, "iloc"):
            return validate_data(self, X, skip_check_array=True), column_or_1d(y, warn=True)
        if hasattr(X, "ndim") and X.ndim > 2:
            return np.asarray(X), y
        checked: Any = validate_data(self, X, y, dtype=None, accept_sparse=False)
        return checked
