"""Network students that learn from the answered queries, and then perhaps from their own confident predictions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ostrakon.networks import training
from ostrakon.networks.backend import F, Tensor, torch
from ostrakon.students.torch_student import TorchStudent, share_of
from ostrakon.validation import whole


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


@dataclass(kw_only=True, eq=False, repr=False)
class SelfTrainingNetwork(SupervisedNetwork):
    """A supervised network, and then `rounds` new ones, each fitted on the pool with labels from the previous one.

    Parameters
    ----------
    rounds : int, default 2
        Number of further networks.
    keep : float, default 0.9
        Share of the pool, the most confident rows of every predicted class, that is labelled in a round.
    steps : int
        Optimiser steps per round.
    **others
        As in `TorchStudent`.

    Notes
    -----
    The released labels are kept as they are.

    References
    ----------
    Lee 2013, Pseudo-Label; Xie 2020, noisy student.
    """

    rounds: int = 2
    keep: float = 0.9

    def _check(self) -> None:
        super()._check()
        whole("rounds", self.rounds, at_least=1)
        share_of("keep", self.keep)

    def _train(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> int:
        start = {name: value.detach().clone() for name, value in module.state_dict().items()}
        steps = super()._train(module, pool, targets, draw)
        for _ in range(self.rounds):
            pseudo_labels = _confident_labels(training.outputs(module, pool), self.keep)
            pseudo_labels = torch.where(
                targets.to(pseudo_labels.device) >= 0, targets.to(pseudo_labels.device), pseudo_labels
            )
            # Each round starts from the initial weights, without the mistakes of the previous network.
            module.load_state_dict(start)
            steps += super()._train(module, pool, pseudo_labels, draw)
        return steps


def _confident_labels(logits: Tensor, keep: float) -> Tensor:
    """Return the predicted class of the `keep` most confident rows of each class, -1 for others."""
    confidence, predicted = torch.softmax(logits, dim=1).max(dim=1)
    pseudo_labels = torch.full_like(predicted, -1)
    for k in torch.unique(predicted):
        rows = torch.nonzero(predicted == k).flatten()
        most = rows[confidence[rows].argsort(descending=True, stable=True)[: int(np.ceil(keep * len(rows)))]]
        pseudo_labels[most] = k
    return pseudo_labels
