"""FixMatch: confident predictions on weakly changed inputs are labels for strongly changed ones."""

from dataclasses import dataclass
from typing import Any

from ostrakon.networks import training
from ostrakon.networks.backend import F, Tensor, torch
from ostrakon.students.torch_student import TorchStudent, share_of
from ostrakon.validation import non_negative, whole


@dataclass(kw_only=True, eq=False, repr=False)
class FixMatch(TorchStudent):
    """A network trained on labelled rows and on its own confident predictions for unlabelled rows.

    Parameters
    ----------
    threshold : float, default 0.95
        Confidence above which a prediction is used as a label.
    ratio : int, default 3
        Unlabelled rows per labelled one in a step.
    unlabelled_weight : float, default 1
        Weight of the consistency loss.
    augmentation : str
        Of the labelled rows; the pool is labelled under "weak" changes and learned under "strong" ones (see
        `ostrakon.networks.augment`).
    **others
        As in `TorchStudent`.

    References
    ----------
    Sohn 2020, FixMatch.
    """

    threshold: float = 0.95
    ratio: int = 3
    unlabelled_weight: float = 1.0

    def _check(self) -> None:
        super()._check()
        share_of("threshold", self.threshold)
        whole("ratio", self.ratio, at_least=1)
        non_negative("unlabelled_weight", self.unlabelled_weight)

    def _losses(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> Any:
        labelled_batches = self._labelled(targets, draw)
        pool_batches = training.batches(len(pool), min(self.ratio * self.batch_size, len(pool)), draw)

        def loss_of(step: int) -> Tensor:
            rows = next(labelled_batches)
            x = pool[next(pool_batches).to(pool.device)]
            with torch.no_grad():
                proba = torch.softmax(module(self._changed(x, draw, "weak")), dim=1)
                confidence, pseudo_labels = proba.max(dim=1)
                confident = (confidence >= self.threshold).float()
            known = self._changed(pool[rows], draw, self.augmentation)
            # One pass for both, so that batch norm sees them together.
            logits = module(torch.cat([known, self._changed(x, draw, "strong")]))
            supervised = F.cross_entropy(logits[: len(rows)], targets[rows])
            consistent = F.cross_entropy(logits[len(rows) :], pseudo_labels, reduction="none")
            return supervised + self.unlabelled_weight * (consistent * confident).mean()

        return loss_of
