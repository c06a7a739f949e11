"""The public rows of a run without any: drawn from noisy marginals of the private table, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ostrakon.data.domain import Domain
from ostrakon.features.synthetic import synthetic_cells, tables_of
from ostrakon.mechanisms.synthetic_gnmax import SyntheticGNMax
from ostrakon.planning.plan import Plan
from ostrakon.run.inputs.task import Task
from ostrakon.run.noise_log import Log
from ostrakon.teachers.marginals import collect_marginals
from ostrakon.validation import InvalidInput
from ostrakon.votes import STEPS, IntArray, Marginals


@dataclass(frozen=True, kw_only=True)
class _NoisyMarginals:
    """Noisy marginals as something the log can draw once: whole steps of their public grid, (cells, 1)."""

    name: ClassVar[str] = "noisy marginals"

    mechanism: SyntheticGNMax

    def sample(self, votes: Marginals, rng: np.random.Generator) -> IntArray:
        return self.mechanism.noisy_marginals(votes, rng)

    def parameters(self) -> dict[str, Any]:
        return self.mechanism.parameters()


def with_synthetic_pool(
    task: Task,
    domain: Domain,
    plan: Plan,
    *,
    seed: int,
    log: Log,
    rng: np.random.Generator,
    folder: Path | None,
    paid: Callable[[IntArray], None] | None = None,
) -> tuple[Task, bool]:
    """(the task with its public rows, whether their noise came from the cryptographic source).

    folder: where pieces of the private table are kept. log: the noisy marginals are drawn once, and what was made of
    them is kept beside: a resumed run has the same rows, whatever the version of what makes them. paid: told the noisy
    marginals before anything is made of them; it may refuse.

    Guarantee: the rows are post-processing of marginals under the noise that the plan's mechanism pays for, of the form
    and the number that `domain` says.
    Errors: `InvalidInput` for a plan without marginals; as of `Log.draw`, `synthetic_cells`.
    """
    mechanism = plan.mechanism
    if not isinstance(mechanism, SyntheticGNMax):
        raise InvalidInput(f"The plan must pay for the marginals of synthetic rows, got one of {mechanism.name}.")
    tables, sizes = tables_of(domain.sizes), domain.sizes
    where: Any = {"seed": seed, "transform": domain.codes, "folder": folder}
    counted = collect_marginals(task.private.by_unit(**where), tables, sizes=sizes, units=plan.teachers)
    drawn, secure = log.draw("marginals-1", counted, _NoisyMarginals(mechanism=mechanism), rng)
    if paid is not None:
        paid(drawn)

    def cells() -> Any:
        shapes = [tuple(sizes[column] for column in table) for table in tables]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        noisy = [part.reshape(shape) for part, shape in zip(np.split(drawn[:, 0] / STEPS, ends), shapes, strict=False)]
        of: Any = {"noise": mechanism.marginal_noise, "units": plan.teachers, "rows": domain.rows, "seed": seed}
        return synthetic_cells(noisy, tables, sizes=sizes, **of).astype(np.float64)

    codes = log.keep("pool-1", cells).astype(np.int64)
    return dataclasses.replace(task, X_public=domain.frame(codes, seed=seed)), secure
