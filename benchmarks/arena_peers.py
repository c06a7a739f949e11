"""One peer of benchmarks/arena.py, run by the Python of arena_peers.sh; it needs nothing of ostrakon.

    PEERS/bin/python benchmarks/arena_peers.py FEATURES.npz ANSWERS.npz PEER EPSILON DELTA SEED

FEATURES.npz holds X, y (private), X_test and classes, and bound, the length that no row of X exceeds (a public number).
ANSWERS.npz gets probabilities of all classes, (test rows, classes), and the seconds of the fit.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np


def ebm(rate: float | None) -> Any:
    """Boosted additive model under differential privacy, all defaults but the learning rate."""

    def fit(X: Any, y: Any, held: Any, epsilon: float, delta: float, seed: int) -> Any:
        from interpret.privacy import DPExplainableBoostingClassifier

        # Bounds and the shares of classes would otherwise be read from the private rows.
        bounds = [(-held["bound"], held["bound"])] * X.shape[1]
        given = {} if rate is None else {"learning_rate": rate}
        model = DPExplainableBoostingClassifier(
            epsilon=epsilon,
            delta=delta,
            random_state=seed,
            feature_types=["continuous"] * X.shape[1],
            privacy_bounds=np.array(bounds),
            n_jobs=1,
            **given,
        )
        return model.fit(X, y)

    return fit


def diffprivlib(X: Any, y: Any, held: Any, epsilon: float, delta: float, seed: int) -> Any:
    """Logistic regression by objective perturbation (pure epsilon), its default penalty."""
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=float(held["bound"]), random_state=seed).fit(X, y)


def opacus(X: Any, y: Any, held: Any, epsilon: float, delta: float, seed: int) -> Any:
    """Logistic regression by DP-SGD, one setting: 20 epochs, 1% of the rows a batch, clipped at 1, Adam at 0.05."""
    import torch
    from opacus import PrivacyEngine

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rows = torch.utils.data.TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y))
    loader = torch.utils.data.DataLoader(rows, batch_size=max(1, len(rows) // 100))
    model = torch.nn.Linear(X.shape[1], int(held["classes"]))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    model, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=model, optimizer=optimizer, data_loader=loader, target_epsilon=epsilon, target_delta=delta, epochs=20,
        max_grad_norm=1.0,
    )  # fmt: skip
    for _ in range(20):
        for batch, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
    return _Torch(model)


class _Torch:
    def __init__(self, model: Any) -> None:
        self.model = model

    def predict_proba(self, X: Any) -> Any:
        import torch

        with torch.no_grad():
            return torch.softmax(self.model(torch.tensor(X, dtype=torch.float32)), dim=1).numpy()


PEERS = {"dp-ebm": ebm(None), "dp-ebm(learning_rate=.05)": ebm(0.05), "diffprivlib": diffprivlib, "opacus": opacus}


def main() -> None:
    """Fit one peer and keep what it says of the test rows."""
    features, answers, peer, epsilon, delta, seed = sys.argv[1:]
    held = dict(np.load(features))
    started = time.perf_counter()
    model = PEERS[peer](held["X"], held["y"], held, float(epsilon), float(delta), int(seed))
    seconds = time.perf_counter() - started
    likely = np.zeros((len(held["X_test"]), int(held["classes"])))
    likely[:, np.asarray(getattr(model, "classes_", np.arange(likely.shape[1])), np.int64)] = model.predict_proba(
        held["X_test"]
    )
    np.savez(answers, likely=likely, seconds=seconds)


if __name__ == "__main__":
    main()
