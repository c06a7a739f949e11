"""Any `torch.nn.Module` as a scikit-learn classifier, trained the ordinary way."""

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ostrakon.networks import training
from ostrakon.networks.backend import F, Tensor, torch
from ostrakon.networks.inputs import FloatArray
from ostrakon.networks.network import TorchNetwork
from ostrakon.validation import InvalidInput


class TorchClassifier(TorchNetwork):
    """A network trained on labelled rows or images by cross-entropy, as a scikit-learn classifier.

    network: "mlp", "lenet", "cnn", "resnet", a factory (shape, classes) -> torch.nn.Module, or None: a CNN for images,
    an MLP for tables. shape is (columns,) or (channels, height, width); the module returns one logit per class.
    steps: of the optimiser (Adam), with `batch_size` examples each; None: 20 passes over the data, at least 200.
    augmentation: "none", "weak", "moderate" or "strong" (see `ostrakon.networks.augment`); mirror: also left to right.
    device: None picks an accelerator where there is one. verbose: 1 shows progress.

    Inputs are standardized by the mean and deviation of the training rows, per column or per channel.
    Fitted state is plain arrays (`weights_`), so a fitted model can be cloned and pickled.
    Deterministic under `random_state` for a given device and number of threads.

    >>> X, y = np.eye(4, dtype=np.float32).repeat(8, axis=0), np.arange(4).repeat(8)
    >>> TorchClassifier(steps=100, learning_rate=0.02, random_state=0).fit(X, y).predict(X[::8]).tolist()
    [0, 1, 2, 3]
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on rows X with labels y; every label is a class. sample_weight: how much each row counts, (rows,)."""
        labels = _labels(y)
        self.classes_, targets = np.unique(labels, return_inverse=True)
        weights = np.ones(len(labels), np.float32) if sample_weight is None else _mean_one(sample_weight, len(labels))
        self._fit(X, targets.astype(np.int64), partial(self._train, torch.from_numpy(weights)))
        return self

    def _steps(self, rows: int) -> int:
        return self.steps or max(200, 20 * rows // self.batch_size)

    def _train(self, weights: Tensor, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> int:
        stream = training.batches(len(pool), min(self.batch_size, len(pool)), draw)

        def loss_of(step: int) -> Tensor:
            chosen = next(stream)
            logits = module(self._changed(pool[chosen.to(pool.device)], draw, self.augmentation))
            losses = F.cross_entropy(logits, targets[chosen].to(pool.device), reduction="none")
            return (losses * weights[chosen].to(pool.device)).mean()

        return self._run(module, loss_of, self._steps(len(pool)))


def _mean_one(sample_weight: Any, rows: int) -> FloatArray:
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (rows,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise InvalidInput(f"sample_weight must hold {rows} finite numbers from 0, not all 0, got {sample_weight!r}.")
    return (weights / weights.mean()).astype(np.float32)


def _labels(y: Any) -> NDArray[Any]:
    labels = np.asarray(y)
    if labels.ndim != 1 or not labels.size:
        raise InvalidInput(f"y must hold one label per row, got shape {labels.shape}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise InvalidInput("y must hold finite labels, got a NaN or an infinity.")
    return labels
