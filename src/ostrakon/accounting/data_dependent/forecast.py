"""Expected answers and cost of a run, query by query: for planning, on the trusted side only."""

from typing import Any

import numpy as np

from ostrakon.accounting.epsilons import Private
from ostrakon.mechanisms.base import FloatArray
from ostrakon.votes import IntArray, Votes


class Forecast(Private):
    """Expectations of one run on given votes. Private, like the votes.

    `reveal()` gives the totals, `per_query()` the arrays (cost against gap); both must stay on the trusted side.
    """

    __slots__ = ("__costs", "__gap", "__order", "__p_answer", "__p_plurality", "__top")

    def __init__(
        self,
        *,
        gap: IntArray,
        top: IntArray,
        p_answer: FloatArray,
        p_plurality: FloatArray,
        costs: FloatArray,
        order: float,
    ) -> None:
        self.__gap, self.__top, self.__order = gap, top, order
        self.__p_answer, self.__p_plurality, self.__costs = p_answer, p_plurality, costs

    def reveal(self) -> dict[str, float]:
        """Totals: {"queries", "expected_answers", "expected_agreement", "data_dependent_cost", "order"}.

        expected_agreement: expected share of the answers that equal the noiseless plurality; nan without answers.
        data_dependent_cost: Rényi cost at `order`, the order that gives the data-dependent epsilon.
        """
        answers = float(self.__p_answer.sum())
        agreement = float(self.__p_plurality.sum()) / answers if answers > 0 else float("nan")
        return {
            "queries": len(self.__gap),
            "expected_answers": answers,
            "expected_agreement": agreement,
            "data_dependent_cost": float(self.__costs.sum()),
            "order": self.__order,
        }

    def per_query(self) -> dict[str, Any]:
        """Arrays of shape (queries,): {"gap", "top", "answer_probability", "agreement", "cost"}, in query order.

        agreement: probability that the answer is the noiseless plurality, given that there is one.
        cost: exact data-dependent Rényi cost at the order of `reveal()`.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            agreement = np.where(self.__p_answer > 0, self.__p_plurality / self.__p_answer, np.nan)
        return {
            "gap": self.__gap.copy(),
            "top": self.__top.copy(),
            "answer_probability": self.__p_answer.copy(),
            "agreement": agreement,
            "cost": self.__costs.copy(),
        }


def forecast(
    votes: Votes, *, costs: FloatArray, chances: FloatArray, orders: FloatArray, curve_order: float
) -> Forecast:
    """The forecast of a mechanism on `votes`, from the result of `costs_and_chances`.

    costs: exact data-dependent costs, shape (queries, orders); curve_order: the order (one of `orders`) to report. An
    answer agrees if it is the class of `votes.plurality` (the lowest of tied ones).
    """
    at = int(np.flatnonzero(orders == curve_order)[0])
    return Forecast(
        gap=votes.gap,
        top=votes.top,
        p_answer=chances[:, 0],
        p_plurality=chances[:, 1],
        costs=costs[:, at],
        order=curve_order,
    )
