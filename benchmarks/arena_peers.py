"""One peer of benchmarks/arena.py, run by the Python of arena_peers.sh; it needs nothing of ostrakon.

    PEERS/bin/python benchmarks/arena_peers.py FEATURES.npz ANSWERS.npz PEER EPSILON DELTA SEED

FEATURES.npz holds X, y (private), X_test, X_public and classes, and bound, the length that no row of X exceeds (a
public number).
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


BINS, COLUMNS, ROUNDS, DRAWN, OF_CHOICE = 8, 24, 16, 10_000, 0.1
"""Of AIM: bins of a column at its public quantiles; columns at most, those of largest public variance; rounds for each
column, as its authors take; synthetic rows that stand for the model where pairs are compared; share of the cost for
choosing pairs."""


def aim(X: Any, y: Any, held: Any, epsilon: float, delta: float, seed: int) -> Any:
    """Boosting on synthetic rows of the adaptive and iterative mechanism AIM, written on the package mbi.

    McKenna et al. 2022, for one record added or removed: a round chooses the pair of columns that the model fits worst,
    with the exponential mechanism, and measures it with Gaussian noise. Its workload is all pairs, those with the label
    weighing three times as much.
    """
    from mbi import Dataset, Domain, LinearMeasurement, estimation, junction_tree
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng, classes = np.random.default_rng(seed), int(held["classes"])
    np.random.seed(seed)  # noqa: NPY002 (mbi draws rows with it)
    kept, edges = _bins(held["X_public"])
    codes = np.column_stack([np.searchsorted(cuts, X[:, column]) for column, cuts in zip(kept, edges, strict=True)])
    names = [*map(str, range(len(kept))), "label"]
    domain = Domain(names, [*(len(cuts) + 1 for cuts in edges), classes])
    rows = Dataset(dict(zip(names, [*codes.T, y], strict=True)), domain)
    total = len(y)
    rho, spent = _zcdp(epsilon, delta), 0.0
    rounds = ROUNDS * len(names)
    sigma, choice = np.sqrt(rounds / (2 * (1 - OF_CHOICE) * rho)), np.sqrt(8 * OF_CHOICE * rho / rounds)
    measured: list[Any] = []

    def cells(law: Any, clique: tuple[str, ...]) -> Any:
        return np.asarray(law.project(clique).datavector())

    def measure(clique: tuple[str, ...]) -> None:
        truth = cells(rows, clique)
        measured.append(LinearMeasurement(truth + rng.normal(scale=sigma, size=truth.shape), clique, stddev=sigma))

    def fitted(model: Any) -> Any:
        return estimation.MirrorDescent().estimate(domain, measured, known_total=total, iters=200, warm_start=model)

    for name in names:
        measure((name,))
        spent += 1 / (2 * sigma**2)
    model = fitted(None)
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    while spent < rho * (1 - 1e-9):
        left = rho - spent
        if left < 2 * (1 / (2 * sigma**2) + choice**2 / 8):  # the last round takes what is left
            sigma, choice = np.sqrt(1 / (2 * (1 - OF_CHOICE) * left)), np.sqrt(8 * OF_CHOICE * left)
        allowed = [
            pair
            for pair in pairs
            if junction_tree.hypothetical_model_size(domain, [*(each.clique for each in measured), pair]) < 1
        ]
        before = model.synthetic_data(rows=DRAWN)
        weights = np.array([3.0 if "label" in pair else 1.0 for pair in allowed])
        missed = [np.abs(cells(rows, pair) - cells(before, pair) * total / DRAWN).sum() for pair in allowed]
        usual = [np.sqrt(2 / np.pi) * sigma * domain.size(pair) for pair in allowed]
        quality = weights * (np.array(missed) - usual)
        chosen = allowed[int(np.argmax(choice / (2 * weights.max()) * quality + rng.gumbel(size=len(allowed))))]
        measure(chosen)
        spent += 1 / (2 * sigma**2) + choice**2 / 8
        model = fitted(model)
        moved = np.abs(cells(model, chosen) - cells(before, chosen) * total / DRAWN).sum()
        if moved <= np.sqrt(2 / np.pi) * sigma * domain.size(chosen):
            sigma, choice = sigma / 2, 2 * choice
    made = model.synthetic_data(rows=max(total, 1000)).to_dict()
    features = np.column_stack([made[name] for name in names[:-1]])
    return _Binned(HistGradientBoostingClassifier(random_state=seed).fit(features, made["label"]), kept, edges)


def _bins(public: Any) -> tuple[list[int], list[Any]]:
    """(columns that are kept, each rank once; where each is cut)."""
    different: dict[bytes, int] = {}
    for column in np.argsort(-public.var(axis=0), kind="stable"):
        different.setdefault(np.unique(public[:, column], return_inverse=True)[1].tobytes(), int(column))
    kept = [column for column in different.values() if np.ptp(public[:, column]) > 0][:COLUMNS]
    shares = np.arange(1, BINS) / BINS
    return kept, [np.unique(np.quantile(public[:, column], shares)) for column in kept]


def _zcdp(epsilon: float, delta: float) -> float:
    """The concentrated DP of an epsilon (Canonne, Kamath and Steinke 2020, Corollary 13), by halving."""
    orders = 1 + np.logspace(-2, 4, 4000)
    low, high = 0.0, epsilon
    for _ in range(60):
        rho = (low + high) / 2
        logs = (orders - 1) * (orders * rho - epsilon) - np.log(orders - 1) + orders * np.log1p(-1 / orders)
        low, high = (rho, high) if logs.min() <= np.log(delta) else (low, rho)
    return low


class _Binned:
    def __init__(self, model: Any, kept: list[int], edges: list[Any]) -> None:
        self.model, self.kept, self.edges, self.classes_ = model, kept, edges, model.classes_

    def predict_proba(self, X: Any) -> Any:
        columns = zip(self.kept, self.edges, strict=True)
        return self.model.predict_proba(np.column_stack([np.searchsorted(cuts, X[:, at]) for at, cuts in columns]))


PEERS = {
    "dp-ebm": ebm(None),
    "dp-ebm(learning_rate=.05)": ebm(0.05),
    "diffprivlib": diffprivlib,
    "opacus": opacus,
    "aim": aim,
}


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
