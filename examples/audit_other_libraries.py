"""Auditing other libraries: Opacus, DP-EBM of InterpretML, and PATE-GAN of SmartNoise.

    pip install opacus interpret-core smartnoise-synth
    python examples/audit_other_libraries.py

What is not installed is left out. An audit certifies a lower bound: a low one does not show that a claim is true.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.audit import TrainingAudit, audit_training

Array = NDArray[Any]
DELTA = 1e-5
ROWS, COLUMNS, CANARIES = 500, 20, 200


def made_up(rows: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, COLUMNS)).clip(-4, 4).astype(np.float32)
    return X, (X[:, 0] + 0.5 * rng.normal(size=rows) > 0).astype(np.int64)


def canaries() -> tuple[Array, Array]:
    """Rows far from all others, with random labels."""
    rng = np.random.default_rng(1)
    return rng.choice([-4.0, 4.0], size=(CANARIES, COLUMNS)).astype(np.float32), rng.integers(2, size=CANARIES)


def opacus_network(noise: float, claimed: list[float]) -> Callable[[Array, Array], Any]:
    """A small network by DP-SGD. Opacus' accountant means one record more or less."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    class Model:
        def __init__(self, network: Any) -> None:
            self.network = network

        def predict_proba(self, X: Array) -> Array:
            with torch.no_grad():
                return torch.softmax(self.network(torch.from_numpy(X)).double(), dim=1).numpy()

    def train(X: Array, y: Array) -> Any:
        torch.manual_seed(0)  # of the first weights; Opacus draws its noise from torch, too
        network: Any = torch.nn.Sequential(torch.nn.Linear(COLUMNS, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        torch.seed()
        steps = torch.optim.SGD(network.parameters(), lr=1.0)
        engine = PrivacyEngine(accountant="prv")
        batches = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(y)), batch_size=len(X))
        network, steps, batches = engine.make_private(
            module=network, optimizer=steps, data_loader=batches, noise_multiplier=noise, max_grad_norm=1.0
        )
        for _ in range(10):
            for rows, labels in batches:
                steps.zero_grad()
                torch.nn.functional.cross_entropy(network(rows), labels).backward()
                steps.step()
        if noise > 1:
            claimed.append(engine.get_epsilon(DELTA))
        return Model(network)

    return train


def audit_opacus(noise: float) -> TrainingAudit:
    """Models with and without one large record, against the claim of a noise multiplier of 10."""
    claimed: list[float] = []
    opacus_network(10.0, claimed)(*made_up(100))
    canary = np.zeros((1, COLUMNS), dtype=np.float32)
    canary[0, 0] = 40.0
    return audit_training(
        opacus_network(noise, claimed),
        made_up(100),
        claimed=(claimed[0], DELTA),
        neighbours="add-remove",
        rng=np.random.default_rng(2),
        canaries=(canary, np.zeros(1, dtype=np.int64)),
        runs=80,
    )


def audit_ebm() -> TrainingAudit:
    """An additive model by DP boosting; its documents do not say which neighbours it means."""
    from interpret.privacy import DPExplainableBoostingClassifier

    def train(X: Array, y: Array) -> Any:
        bounds = [(-4.0, 4.0)] * COLUMNS
        model = DPExplainableBoostingClassifier(epsilon=1.0, delta=DELTA, privacy_bounds=bounds, n_jobs=1)
        return model.fit(X, y)

    return audit_training(
        train,
        made_up(ROWS),
        claimed=(1.0, DELTA),
        neighbours="add-remove",
        rng=np.random.default_rng(2),
        canaries=canaries(),
    )


def audit_pate_gan() -> TrainingAudit:
    """Synthetic rows; a canary was used if a synthetic row is near it."""
    import pandas as pd
    from snsynth.pytorch.nn.pategan import PATEGAN

    def train(X: Array, y: Array) -> Array:
        table = pd.DataFrame(np.column_stack([X, y]), columns=[str(column) for column in range(COLUMNS + 1)])
        gan = PATEGAN(epsilon=1.0, delta=DELTA)
        gan.fit(table, continuous_columns=list(table.columns), preprocessor_eps=0.5)
        return np.asarray(gan.sample(2000), dtype=np.float64)

    def score(synthetic: Array, X: Array, y: Array) -> Array:
        rows = np.column_stack([X, y])
        return -np.array([np.nanmin(((synthetic - row) ** 2).sum(axis=1)) for row in rows])

    return audit_training(
        train,
        made_up(3000),
        claimed=(1.5, DELTA),
        neighbours="add-remove",
        rng=np.random.default_rng(2),
        canaries=canaries(),
        score=score,
    )


def main() -> None:
    warnings.filterwarnings("ignore")
    audits: list[tuple[str, str, Callable[[], TrainingAudit]]] = [
        ("opacus", "Opacus", lambda: audit_opacus(10.0)),
        ("opacus", "Opacus with nearly no noise, but the same claim", lambda: audit_opacus(1e-6)),
        ("interpret", "DP-EBM at epsilon 1", audit_ebm),
        ("snsynth", "PATE-GAN of SmartNoise at epsilon 1 + 0.5", audit_pate_gan),
    ]
    for package, name, run in audits:
        if importlib.util.find_spec(package) is None:
            print(f"{name}: {package} is not installed")
            continue
        print(f"{name}: {run().verdict}")


if __name__ == "__main__":
    main()
