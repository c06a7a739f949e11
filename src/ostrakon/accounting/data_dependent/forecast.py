"""Expected answers and cost of a run, query by query: for planning, on the trusted side only."""

import numpy as np

from ostrakon.accounting.epsilons import Private
from ostrakon.mechanisms.base import FloatArray


class Forecast(Private):
    """Expectations of one run on given votes. Private, like the votes; what `reveal()` gives must stay there, too."""

    __slots__ = ("__costs", "__order", "__p_answer", "__p_plurality")

    def __init__(self, *, p_answer: FloatArray, p_plurality: FloatArray, costs: FloatArray, order: float) -> None:
        self.__p_answer, self.__p_plurality, self.__costs, self.__order = p_answer, p_plurality, costs, order

    def reveal(self) -> dict[str, float]:
        """Return the totals {"queries", "expected_answers", "expected_agreement", "data_dependent_cost", "order"}.

        expected_agreement: expected share of the answers that equal the noiseless plurality; nan without answers.
        data_dependent_cost: Rényi cost at `order`, the order that gives the data-dependent epsilon.
        """
        answers = float(self.__p_answer.sum())
        agreement = float(self.__p_plurality.sum()) / answers if answers > 0 else float("nan")
        return {
            "queries": len(self.__costs),
            "expected_answers": answers,
            "expected_agreement": agreement,
            "data_dependent_cost": float(self.__costs.sum()),
            "order": self.__order,
        }


def forecast(*, costs: FloatArray, chances: FloatArray, orders: FloatArray, curve_order: float) -> Forecast:
    """Return the forecast of a mechanism on votes, from the result of `costs_and_chances`.

    costs: exact data-dependent costs, shape (queries, orders); curve_order: the order (one of `orders`) to report. An
    answer agrees if it is the class of the votes' plurality (the lowest of tied ones).
    """
    at = int(np.flatnonzero(orders == curve_order)[0])
    return Forecast(p_answer=chances[:, 0], p_plurality=chances[:, 1], costs=costs[:, at], order=curve_order)
