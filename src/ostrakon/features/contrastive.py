"""An encoder learned from public images without labels: it learns to match two changed views of an image."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ostrakon.networks import augment, training
from ostrakon.networks.architectures import quarters
from ostrakon.networks.backend import F, Tensor, generator, nn, pick_device, repeatable, seeded, torch
from ostrakon.networks.inputs import FloatArray, as_inputs, moments, standardized
from ostrakon.networks.network import LAYOUT, StoredNetwork, beside
from ostrakon.validation import InvalidInput, non_negative, positive, whole

View = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(kw_only=True, eq=False, repr=False)
class ContrastiveEncoder(TransformerMixin, StoredNetwork):
    """Images to features, learned from public images alone by contrasting views of them (SimCLR).

    width: channels of the first layer; features: 16 times as many. epochs: passes over the images; batch_size: images
    per step, each contrasted with the others. temperature: of the normalized cross-entropy.
    augmentation: "grey" (warps, contrast, noise, a blanked square), "colour" (also crops and mirroring), None: by the
    number of channels; or a function (standardized image batch, generator on its device) -> image batch.
    verbose: 1 shows progress. Other parameters as in `ostrakon.networks.TorchClassifier`.

    fit(X): public images only; labels are never looked at. transform(X): float32 (images, 16 width), rows of length 1.
    Fitted state is plain arrays. Deterministic under `random_state` for a given device and number of threads.
    Guarantee: a function of public rows alone, so it costs no privacy.
    Source: Chen 2020, A Simple Framework for Contrastive Learning of Visual Representations.
    """

    width: int = 32
    epochs: int = 60
    batch_size: int = 256
    temperature: float = 0.3
    learning_rate: float = 0.003
    weight_decay: float = 0.001
    augmentation: str | View | None = None
    random_state: int | None = None
    device: str | None = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from public images X; y is ignored."""
        inputs = self._checked(X)
        if len(inputs) < 4:
            raise InvalidInput(f"X must hold at least 4 public images to contrast, got {len(inputs)}.")
        self.shape_ = inputs.shape[1:]
        self.mean_, self.deviation_ = moments(inputs)
        device = pick_device(self.device)
        seeds = np.random.SeedSequence(self.random_state).spawn(3)
        with seeded(seeds[0]):
            body = self._new().to(device, memory_format=LAYOUT)
            head = nn.Sequential(nn.Linear(16 * self.width, 128), nn.ReLU(), nn.Linear(128, 64)).to(device)
        pool = torch.from_numpy(standardized(inputs, self.mean_, self.deviation_)).to(device)
        draw = generator(seeds[1])
        size = min(self.batch_size, len(pool))
        stream = training.batches(len(pool), size, draw)
        whole_network = nn.Sequential(body, head)

        def loss_of(step: int) -> Tensor:
            x = pool[next(stream).to(device)]
            views = torch.cat([self._view(x, draw), self._view(x, draw)])
            return contrast(whole_network(views), self.temperature)

        with seeded(seeds[2]), repeatable(device, strict=False):
            self.n_steps_ = training.train(
                whole_network,
                loss_of,
                steps=max(1, self.epochs * len(pool) // size),
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                label="Learning from public images",
                verbose=self.verbose,
            )
        self._store(body)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return features of every image, (images, 16 width), each row of length 1."""
        return F.normalize(self._outputs(X, images=True, batch=256), dim=1).numpy()

    def exported_network(self) -> Any:
        """Return the encoder as one module from images as given (channels first) to features, on the CPU."""
        check_is_fitted(self, "weights_")
        return nn.Sequential(self._scale(), *self._module().cpu(), _UnitLength()).eval()

    def _new(self) -> Any:
        return encoder(self.shape_, self.width)

    def _view(self, x: Tensor, draw: torch.Generator) -> Tensor:
        draw = beside(draw, x)
        if not (self.augmentation is None or isinstance(self.augmentation, str)):
            return self.augmentation(x, draw)
        colour = self.augmentation == "colour" or (self.augmentation is None and x.shape[1] > 1)
        if not colour:
            return augment.strong(x, draw)
        x = augment.mirror(augment.crop(x, draw, smallest=0.4), draw)
        return augment.blank(augment.contrast(x, draw, 0.4, noise=0.05), draw, share=0.3)

    def _checked(self, X: Any) -> FloatArray:
        whole("width", self.width, at_least=1)
        whole("epochs", self.epochs, at_least=1)
        whole("batch_size", self.batch_size, at_least=4)
        positive("temperature", self.temperature)
        positive("learning_rate", self.learning_rate)
        non_negative("weight_decay", self.weight_decay)
        if not callable(self.augmentation) and self.augmentation not in (None, "grey", "colour"):
            raise InvalidInput(f"augmentation must be grey, colour, a function or None, got {self.augmentation!r}.")
        if self.random_state is not None:
            whole("random_state", self.random_state)
        inputs = as_inputs(X, images=True)
        if min(inputs.shape[2:]) < 8:
            raise InvalidInput(f"X must hold images of at least 8x8 pixels, got {inputs.shape[2:]}.")
        return inputs


class _UnitLength(nn.Module):
    """Rows of length 1."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` divided by its length, (rows, features)."""
        return F.normalize(x, dim=1)


def encoder(shape: tuple[int, ...], width: int) -> Any:
    """Return three convolutions to 16 width features; the first has stride 2 if images are large."""
    stride = 2 if min(shape[1:]) >= 16 else 1
    height, width_ = (-(-side // stride) // 2 for side in shape[1:])
    return nn.Sequential(
        nn.Conv2d(shape[0], width, 5, stride=stride, padding=2, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2 * width, 4 * width, 3, padding=1, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(),
        quarters(height, width_),
        nn.Flatten(),
    )


def contrast(codes: Tensor, temperature: float) -> Tensor:
    """NT-Xent: mean cross-entropy of finding each code's partner, half the rows away, among all other codes.

    codes: (2 images, features), first all first views, then all second ones.
    """
    codes = F.normalize(codes, dim=1)
    likeness = codes @ codes.T / temperature
    likeness = likeness.masked_fill(torch.eye(len(codes), dtype=torch.bool, device=codes.device), float("-inf"))
    half = len(codes) // 2
    partner = (torch.arange(len(codes), device=codes.device) + half) % len(codes)
    return F.cross_entropy(likeness, partner)
