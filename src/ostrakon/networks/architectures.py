"""Small networks by name: an MLP for tables, LeNet, a CNN and a small ResNet for images.

A factory takes the shape of one input, (columns,) or (channels, height, width), and the number of classes.
"""

from collections.abc import Callable
from typing import Any

from ostrakon.networks.backend import F, nn
from ostrakon.validation import InvalidInput

Factory = Callable[[tuple[int, ...], int], Any]


def mlp(shape: tuple[int, ...], classes: int) -> Any:
    """Return two hidden layers of 64; images are flattened."""
    size = 1
    for side in shape:
        size *= side
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes)
    )


def lenet(shape: tuple[int, ...], classes: int) -> Any:
    """Return two 5x5 convolutions with pooling and two hidden layers, 62,000 weights on 28x28 (LeCun 1998, ReLU)."""
    channels, height, width = _image(shape, "lenet", 12)
    flat = 16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
    # Pooling before the ReLU gives the same values with a quarter of the ReLU's work.
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(flat, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def _block(before: int, after: int, *, kernel: int = 3, stride: int = 1) -> tuple[Any, ...]:
    """Return a convolution with batch norm and its activation."""
    convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(after), nn.LeakyReLU(0.1)


def cnn(shape: tuple[int, ...], classes: int) -> Any:
    """Four 3x3 convolutions with batch norm: the students' default on images."""
    channels, height, width = _image(shape, "cnn", 8)
    return nn.Sequential(
        *_block(channels, 32),
        nn.MaxPool2d(2),
        *_block(32, 64),
        *_block(64, 64),
        nn.MaxPool2d(2),
        *_block(64, 128),
        quarters(height // 4, width // 4),
        nn.Flatten(),
        nn.Linear(512, classes),
    )


def quarters(height: int, width: int) -> Any:
    """Return the means of an image's quarters, as `AdaptiveAvgPool2d(2)`, whose gradients do not repeat on a GPU."""
    return nn.AvgPool2d((-(-height // 2), -(-width // 2)), stride=(height // 2, width // 2))


def quick_cnn(shape: tuple[int, ...], classes: int) -> Any:
    """Three convolutions with batch norm, the first with stride 2: a seventh of `cnn`'s work, for two cores."""
    channels, height, width = _image(shape, "quick-cnn", 8)
    flat = 64 * (-(-height // 2) // 2 // 2) * (-(-width // 2) // 2 // 2)
    return nn.Sequential(
        *_block(channels, 16, kernel=5, stride=2),
        *_block(16, 32),
        nn.MaxPool2d(2),
        *_block(32, 64),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(flat, 128, bias=False),
        nn.BatchNorm1d(128),
        nn.LeakyReLU(0.1),
        nn.Linear(128, classes),
    )


class Residual(nn.Module):
    """Two 3x3 convolutions around a shortcut, with group norm: no running statistics, so ensembles can stack it."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(4, after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(4, after)
        self.shortcut = nn.Identity() if before == after and stride == 1 else nn.Conv2d(before, after, 1, stride=stride)

    def forward(self, x: Any) -> Any:
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


def resnet(shape: tuple[int, ...], classes: int) -> Any:
    """Return a residual network of seven convolutions in three widths (16, 32, 64)."""
    channels, *_ = _image(shape, "resnet", 8)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, classes),
    )


ARCHITECTURES: dict[str, Factory] = {"mlp": mlp, "lenet": lenet, "cnn": cnn, "quick-cnn": quick_cnn, "resnet": resnet}


def build_network(network: str | Factory | None, shape: tuple[int, ...], classes: int) -> Any:
    """Return the network by name, by factory, or (None) the fitting one: `cnn` for images, `mlp` for tables.

    Errors: `InvalidInput` for an unknown name, and for a factory that returns anything but a `torch.nn.Module`.
    """
    if network is None:
        network = "mlp" if len(shape) == 1 else "cnn"
    if isinstance(network, str):
        if network not in ARCHITECTURES:
            raise InvalidInput(
                f"network must be one of {', '.join(ARCHITECTURES)} or a factory (shape, classes) -> torch.nn.Module, "
                f"got {network!r}."
            )
        network = ARCHITECTURES[network]
    built = network(shape, classes)
    if not isinstance(built, nn.Module):
        raise InvalidInput(f"network must make a torch.nn.Module, got {built!r}.")
    return built


def wants_images(network: Any) -> bool:
    """Return whether the named network reads (channels, height, width)."""
    return network in ("lenet", "cnn", "quick-cnn", "resnet")


def _image(shape: tuple[int, ...], name: str, smallest: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise InvalidInput(
            f"network {name!r} must be given images of at least {smallest}x{smallest} pixels, got rows of {shape}."
        )
    return shape[0], shape[1], shape[2]
