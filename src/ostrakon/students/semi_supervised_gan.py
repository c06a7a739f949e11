"""The semi-supervised GAN: a classifier that also separates public rows from generated ones, by feature matching."""

from dataclasses import dataclass
from typing import Any

from ostrakon.networks import training
from ostrakon.networks.backend import F, Tensor, nn, torch
from ostrakon.students.torch_student import TorchStudent
from ostrakon.validation import InvalidInput, positive, whole


@dataclass(kw_only=True, eq=False, repr=False)
class SemiSupervisedGAN(TorchStudent):
    """A classifier whose logits also detect generated rows, trained against a generator that matches its features.

    Parameters
    ----------
    noise : int, default 64
        Numbers that the generator starts from.
    ratio : int, default 2
        Pool rows, and generated rows, per labelled one in a step.
    generator_rate : float, default 0.003
        Learning rate of the generator.
    network : str or module
        Must end in its classifying layer, as a `torch.nn.Sequential`.
    augmentation : str
        Of the labelled rows alone.
    **others
        As in `TorchStudent`.

    Notes
    -----
    A row is real to the degree sum_k exp(logit_k) / (1 + sum_k exp(logit_k)); labelled rows also have their class. The
    generator generates rows whose mean features (the input of the last layer) match those of the pool.

    References
    ----------
    Salimans 2016, Improved Techniques for Training GANs, sections 3.1 and 5; the student of pate-2017 and of pate-2018
    for MNIST and SVHN.
    """

    noise: int = 64
    ratio: int = 2
    generator_rate: float = 0.003

    def _check(self) -> None:
        super()._check()
        whole("noise", self.noise, at_least=1)
        whole("ratio", self.ratio, at_least=1)
        positive("generator_rate", self.generator_rate)

    def _losses(self, module: Any, pool: Tensor, targets: Tensor, draw: torch.Generator) -> Any:
        if not isinstance(module, nn.Sequential) or len(module) < 2:
            raise InvalidInput(
                "network must be a torch.nn.Sequential whose last layer classifies, for a GAN's student."
            )
        body, head = module[:-1], module[-1]
        generator = Generator(tuple(pool.shape[1:]), self.noise, float(pool.min()), float(pool.max())).to(pool.device)
        optimiser = torch.optim.Adam(generator.parameters(), lr=self.generator_rate, betas=(0.5, 0.999))
        labelled_batches = self._labelled(targets, draw)
        pool_batches = training.batches(len(pool), min(self.ratio * self.batch_size, len(pool)), draw)

        def generated(count: int) -> Tensor:
            return generator(torch.randn(count, self.noise, generator=draw).to(pool.device))

        def loss_of(step: int) -> Tensor:
            # The generator's step; its gradients must not reach the classifier.
            x = pool[next(pool_batches).to(pool.device)]
            with torch.no_grad():
                target_features = body(x).mean(dim=0)
            for value in module.parameters():
                value.requires_grad_(False)
            optimiser.zero_grad(set_to_none=True)
            F.mse_loss(body(generated(len(x))).mean(dim=0), target_features).backward()
            optimiser.step()
            for value in module.parameters():
                value.requires_grad_(True)
            rows = next(labelled_batches)
            known = self._changed(pool[rows], draw, self.augmentation)
            with torch.no_grad():
                fake = generated(len(x))
            logits = head(body(torch.cat([known, x])))
            # In one pass, batch norm alone would separate public rows from generated ones.
            real = torch.logsumexp(logits[len(rows) :], dim=1)
            false = torch.logsumexp(head(body(fake)), dim=1)
            discrimination = (F.softplus(-real).mean() + F.softplus(false).mean()) / 2
            return F.cross_entropy(logits[: len(rows)], targets[rows]) + discrimination

        return loss_of


class Generator(nn.Module):
    """Noise to standardized rows within [lowest, highest]: transposed convolutions for images, layers for tables."""

    def __init__(self, shape: tuple[int, ...], noise: int, lowest: float, highest: float) -> None:
        super().__init__()
        self.lowest, self.span = lowest, highest - lowest
        self.shape = shape
        if len(shape) == 1:
            self.layers: Any = nn.Sequential(
                nn.Linear(noise, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 128), nn.BatchNorm1d(128)
            ).extend([nn.ReLU(), nn.Linear(128, shape[0])])
            return
        channels, height, width = shape
        rows, columns = -(-height // 4), -(-width // 4)
        self.layers = nn.Sequential(
            nn.Linear(noise, 64 * rows * columns),
            nn.BatchNorm1d(64 * rows * columns),
            nn.ReLU(),
            nn.Unflatten(1, (64, rows, columns)),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.ConvTranspose2d(32, channels, 4, stride=2, padding=1),
        )

    def forward(self, z: Tensor) -> Tensor:
        """Return rows of the generator, (len(z), *shape)."""
        x = self.layers(z)
        if len(self.shape) == 1:
            return x
        x = x[:, :, : self.shape[1], : self.shape[2]]
        return self.lowest + self.span * torch.sigmoid(x)
