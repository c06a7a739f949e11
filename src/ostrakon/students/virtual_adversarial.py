"""Virtual adversarial training: predictions must not change under the worst small change of the input."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ostrakon.networks import training
from ostrakon.networks.backend import F, Tensor, nn, torch
from ostrakon.students.torch_student import TorchStudent
from ostrakon.validation import non_negative, positive, whole

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(kw_only=True, eq=False, repr=False)
class VirtualAdversarial(TorchStudent):
    """A network trained on labelled rows, and on all rows to be smooth around them and confident.

    Parameters
    ----------
    radius : float, default 0.3
        Length of the adversarial change per value of a standardized input (root mean square).
    power : int, default 1
        Steps that search its direction.
    smoothness : float, default 1
        Weight of that loss.
    certainty : float, default 0.3
        Weight of the entropy of its predictions (the paper's VAT + EntMin).
    ratio : int, default 2
        Pool rows per labelled one in a step.
    **others
        As in `TorchStudent`.

    References
    ----------
    Miyato 2017, Virtual Adversarial Training, equations 11 to 19; the student of pate-2018 for Glyph.
    """

    radius: float = 0.3
    power: int = 1
    smoothness: float = 1.0
    certainty: float = 0.3
    ratio: int = 2

    def _check(self) -> None:
        super()._check()
        positive("radius", self.radius)
        whole("power", self.power, at_least=1)
        non_negative("smoothness", self.smoothness)
        non_negative("certainty", self.certainty)
        whole("ratio", self.ratio, at_least=1)

    def _losses(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> Any:
        labelled_batches = self._labelled(targets, draw)
        pool_batches = training.batches(len(pool), min(self.ratio * self.batch_size, len(pool)), draw)
        radius = self.radius * pool[0].numel() ** 0.5

        def loss_of(step: int) -> Tensor:
            rows = next(labelled_batches)
            known = self._changed(pool[rows], draw, self.augmentation)
            x = self._changed(pool[next(pool_batches).to(pool.device)], draw, self.augmentation)
            # A separate pass, so that batch norm sees the same rows with and without the change.
            logits = module(x)
            # Changed rows must not enter the running statistics of batch norm.
            with _frozen_statistics(module):
                noise = torch.randn(x.shape, generator=draw).to(x.device)
                worst = worst_change(module, x, logits.detach(), radius=radius, power=self.power, noise=noise)
                smooth = divergence(logits.detach(), module(x + worst))
            share = torch.softmax(logits, dim=1)
            entropy = -(share * F.log_softmax(logits, dim=1)).sum(dim=1).mean()
            supervised = F.cross_entropy(module(known), targets[rows])
            return supervised + self.smoothness * smooth + self.certainty * entropy

        return loss_of


def worst_change(module: Any, x: Tensor, logits: Tensor, *, radius: float, power: int, noise: Tensor) -> Tensor:
    """Return the change of length `radius` per row of `x` that changes the predictions most, by power iteration.

    logits: of the network on `x`. noise: a random start of the shape of `x`.
    """
    direction = _unit(noise)
    for _ in range(power):
        # Small compared with the input, but large enough for differences in 32 bits.
        probe = (direction * radius * 0.1).requires_grad_()
        (gradient,) = torch.autograd.grad(divergence(logits, module(x + probe)), probe)
        direction = _unit(gradient)
    return (radius * direction).detach()


def divergence(p_logits: Tensor, q_logits: Tensor) -> Tensor:
    """Return the mean Kullback-Leibler divergence of the distributions with logits p from those with logits q, in
    nats."""
    return F.kl_div(
        F.log_softmax(q_logits, dim=1), F.log_softmax(p_logits, dim=1), log_target=True, reduction="batchmean"
    )


def _unit(x: Tensor) -> Tensor:
    length = x.flatten(1).norm(dim=1).clamp(min=1e-12)
    return x / length.view(-1, *(1,) * (x.ndim - 1))


@contextmanager
def _frozen_statistics(module: Any) -> Generator[None]:
    norms = [layer for layer in module.modules() if isinstance(layer, _NORMS)]
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.momentum = 0.0
    try:
        yield
    finally:
        for layer, momentum in zip(norms, momenta, strict=True):
            layer.momentum = momentum
