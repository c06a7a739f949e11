"""Base of network students: labels with -1 for unlabelled, and early stopping on public inputs alone."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ostrakon.networks import training
from ostrakon.networks.backend import Tensor, torch
from ostrakon.networks.network import TorchNetwork
from ostrakon.students.labelled import UNLABELLED, require_labels
from ostrakon.validation import InvalidInput, positive, whole


@dataclass(kw_only=True, eq=False, repr=False)
class TorchStudent(TorchNetwork, ABC):
    """Base of the network students.

    Parameters
    ----------
    network, batch_size, learning_rate, weight_decay, mirror, random_state, device, verbose
        As in `TorchClassifier`.
    steps : int, default 1000
        Largest number of optimiser steps, at least 1.
    average : float, default 0.99
        Decay of the weights' running average, which predicts.
    augmentation : str, default "moderate"
        Random changes of rows in training (see `ostrakon.networks.augment`).
    patience : int, default 3
        Training ends once that many checks in a row (20 in a whole run, after its first quarter) changed at most 1 in
        1,000 predicted classes of up to 2,000 public rows; 0: never. It does not use labels.

    Attributes
    ----------
    classes_ : array of int
        Class numbers in the released labels.
    n_steps_ : int

    Notes
    -----
    Guarantee: a function of public rows and released labels, so it costs no privacy of its own.
    """

    steps: int | None = 1000
    average: float = 0.99
    augmentation: str = "moderate"
    patience: int = 3

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train on public rows.

        Parameters
        ----------
        X : array
            Public rows or images.
        y : array-like of int, shape (rows,)
            Class numbers, -1 for unlabelled.

        Returns
        -------
        TorchStudent

        Raises
        ------
        InvalidInput
            If no row is labelled.
        """
        labels = require_labels(y, len(X))
        self.classes_ = np.unique(labels[labels != UNLABELLED])
        targets = np.where(labels == UNLABELLED, -1, np.searchsorted(self.classes_, labels))
        self._fit(X, targets.astype(np.int64), self._train)
        return self

    def _check(self) -> None:
        super()._check()
        whole("patience", self.patience)

    def _train(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> int:
        """Minimise this student's loss; `targets` holds -1 for unlabelled."""
        loss_of = self._losses(module, pool, targets.to(pool.device), draw)
        return self._run(
            module, loss_of, whole("steps", self.steps, at_least=1), probe=self._probe(pool), patience=self.patience
        )

    @abstractmethod
    def _losses(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> Any:
        """Return a function from step to loss."""

    def _probe(self, pool: Tensor) -> Tensor:
        return pool[:: max(1, len(pool) // 2000)]

    def _labelled(self, targets: Tensor, draw: torch.Generator) -> Any:
        """Yield batches of positions of labelled rows, without end."""
        rows = torch.nonzero(targets >= 0).flatten().cpu()
        for chosen in training.batches(len(rows), min(self.batch_size, max(len(rows), 16)), draw):
            yield rows[chosen].to(targets.device)


def share_of(name: str, value: Any) -> float:
    """Return `value`; refuse it unless it is above 0 and at most 1."""
    number = positive(name, value)
    if number > 1:
        raise InvalidInput(f"{name} must be above 0 and at most 1, got {value!r}.")
    return number
