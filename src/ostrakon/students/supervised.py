"""The plain network student: trained on the answered queries alone."""

from __future__ import annotations

from typing import Any

from ostrakon.networks.backend import F, Tensor, torch
from ostrakon.students.torch_student import TorchStudent


class SupervisedNetwork(TorchStudent):
    """A network trained by cross-entropy on the labelled rows, each changed at random every time it is seen.

    Parameters as in `TorchStudent`; unlabelled rows serve the scale of the inputs and the early stop only.

    >>> import numpy as np
    >>> X = np.eye(4, dtype=np.float32).repeat(8, axis=0)
    >>> SupervisedNetwork(steps=100, random_state=0).fit(X, np.tile([0, -1, -1, -1], 8)).predict(X[:2])
    array([0, 0])
    """

    def _losses(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> Any:
        batches = self._labelled(targets, draw)

        def loss_of(step: int) -> Tensor:
            rows = next(batches)
            return F.cross_entropy(module(self._changed(pool[rows], draw, self.augmentation)), targets[rows])

        return loss_of
