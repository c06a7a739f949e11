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
    """First a supervised network; then, `rounds` times, a fresh one on the pool as the last one labelled it.

    keep: the share of the pool, the most confident of every predicted class, that is believed in a round.
    steps: per round. The given labels are kept as they are. Other parameters as in `TorchStudent`.
    Source: Lee 2013, Pseudo-Label; Xie 2020, noisy student.
    """

    rounds: int = 2
    keep: float = 0.9

    def _check(self) -> None:
        super()._check()
        whole("rounds", self.rounds, at_least=1)
        share_of("keep", self.keep)

    def _train(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> int:
        start = {name: value.detach().clone() for name, value in module.state_dict().items()}
        taken = super()._train(module, pool, targets, draw)
        for _ in range(self.rounds):
            believed = _believed(training.outputs(module, pool), self.keep)
            believed = torch.where(targets.to(believed.device) >= 0, targets.to(believed.device), believed)
            # A fresh start each round: the last network's own mistakes are not its first opinion.
            module.load_state_dict(start)
            taken += super()._train(module, pool, believed, draw)
        return taken


def _believed(logits: Tensor, keep: float) -> Tensor:
    """The predicted class where it is among the `keep` most confident of that class, else -1."""
    confidence, predicted = torch.softmax(logits, dim=1).max(dim=1)
    believed = torch.full_like(predicted, -1)
    for k in torch.unique(predicted):
        rows = torch.nonzero(predicted == k).flatten()
        most = rows[confidence[rows].argsort(descending=True, stable=True)[: int(np.ceil(keep * len(rows)))]]
        believed[most] = k
    return believed
