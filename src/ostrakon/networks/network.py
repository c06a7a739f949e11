"""The base class of networks as scikit-learn estimators: parameters, state and predictions."""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ostrakon.networks import augment, training
from ostrakon.networks.architectures import Factory, build_network, wants_images
from ostrakon.networks.backend import Tensor, generator, nn, pick_device, repeatable, seeded, torch
from ostrakon.networks.inputs import FloatArray, as_inputs, moments, standardized
from ostrakon.validation import InvalidInput, non_negative, positive, whole

LAYOUT = torch.channels_last
Train = Callable[[nn.Module, Tensor, Tensor, torch.Generator], int]
"""(module, standardized rows, targets, source of randomness) -> steps taken."""


class StoredNetwork(BaseEstimator):
    """Base of estimators that are networks: fitted state is plain arrays, from which the network is built when needed.

    A subclass has `_new`, an untrained network for rows of `shape_`, and sets `mean_` and `deviation_`.
    """

    classes_: NDArray[Any]
    shape_: tuple[int, ...]
    mean_: FloatArray
    deviation_: FloatArray
    weights_: dict[str, Any]
    device: str | None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_built"}

    def _new(self) -> Any:
        raise NotImplementedError

    def _store(self, module: Any) -> None:
        self.weights_ = {name: value.cpu().contiguous().numpy().copy() for name, value in module.state_dict().items()}
        self.__dict__.pop("_built", None)

    def _module(self) -> Any:
        if "_built" not in self.__dict__:
            with seeded(0):
                built = self._new()
            built.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in self.weights_.items()})
            self._built = built.to(memory_format=LAYOUT).eval()
        return self._built

    def _scale(self) -> Any:
        """Return the standardization as a layer: a batch norm without weights in evaluation mode, which every reader
        has.
        """
        kind = nn.BatchNorm1d if len(self.shape_) == 1 else nn.BatchNorm2d
        # Nothing beside a variance, but not 0, which PyTorch 2.11 refuses.
        scale = kind(self.shape_[0], affine=False, eps=1e-30)
        scale.running_mean = torch.from_numpy(self.mean_.copy())
        scale.running_var = torch.from_numpy(self.deviation_.astype(np.float32) ** 2)
        return scale

    def _outputs(self, X: Any, *, images: bool, batch: int) -> Tensor:
        """Return what the network gives for rows of the shape of those in fit, on the CPU."""
        check_is_fitted(self, "weights_")
        inputs = as_inputs(X, images=images)
        if inputs.shape[1:] != tuple(self.shape_):
            raise InvalidInput(f"X must have rows of shape {tuple(self.shape_)}, as in fit, got {inputs.shape[1:]}.")
        device = pick_device(self.device)
        parts = (inputs[at : at + batch] for at in range(0, len(inputs), batch))
        blocks = (standardized(part, self.mean_, self.deviation_) for part in parts)
        return outputs_of(self._module().to(device), blocks, device, strict=False)


@dataclass(eq=False, repr=False)
class TorchNetwork(ClassifierMixin, StoredNetwork):
    """Base of the classifiers that are networks; `TorchClassifier` documents parameters and fitted state.

    A subclass has a `fit` that sets `classes_` and calls `_fit`.
    """

    network: str | Factory | None = None
    _: KW_ONLY
    steps: int | None = None
    batch_size: int = 64
    learning_rate: float = 0.002
    weight_decay: float = 0.01
    augmentation: str = "none"
    mirror: bool = False
    average: float = 0.0
    random_state: int | None = None
    device: str | None = None
    verbose: int = 0

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, (rows, classes), columns as in `classes_`."""
        return torch.softmax(self._logits(X), dim=1).numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of every row."""
        likeliest = self._logits(X).argmax(dim=1).numpy()
        return self.classes_[likeliest]

    def exported_network(self) -> Any:
        """Return the network as one module from inputs as given (channels first) to probabilities, on the CPU."""
        check_is_fitted(self, "weights_")
        body = self._module().cpu()
        parts = list(body) if type(body) is nn.Sequential else [body]
        return nn.Sequential(self._scale(), *parts, nn.Softmax(dim=1)).eval()

    def _fit(self, X: Any, targets: NDArray[np.int64], train: Train) -> None:
        """Train on `targets`, classes as positions in `classes_` and -1 for unlabelled, by what `train` does."""
        self._check()
        inputs = as_inputs(X, images=wants_images(self.network))
        if len(inputs) != len(targets):
            raise InvalidInput(f"X and y must have equally many rows, got {len(inputs)} and {len(targets)}.")
        self.n_features_in_ = int(np.prod(np.shape(X)[1:]))
        self.shape_ = inputs.shape[1:]
        self.mean_, self.deviation_ = moments(inputs)
        device = pick_device(self.device)
        seeds = np.random.SeedSequence(self.random_state).spawn(3)
        with seeded(seeds[0]):
            # Channels last in memory: convolutions and pooling on a CPU are a quarter faster.
            module = self._new().to(device, memory_format=LAYOUT)
        draw = generator(seeds[1])
        pool = torch.from_numpy(standardized(inputs, self.mean_, self.deviation_)).to(device)
        with seeded(seeds[2]), repeatable(device, strict=False):
            self.n_steps_ = train(module, pool, torch.from_numpy(targets), draw)
        self._store(module)

    def _run(self, module: Any, loss_of: Any, steps: int, **options: Any) -> int:
        return training.train(
            module,
            loss_of,
            steps=steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            average=self.average,
            label=type(self).__name__,
            verbose=self.verbose,
            **options,
        )

    def _changed(self, x: Tensor, draw: torch.Generator, how: str) -> Tensor:
        """Return `x` changed by the augmentation named `how`."""
        if how == "none":
            return x
        return getattr(augment, how)(x, beside(draw, x), flip=self.mirror)

    def _check(self) -> None:
        if self.steps is not None:
            whole("steps", self.steps, at_least=1)
        whole("batch_size", self.batch_size, at_least=1)
        positive("learning_rate", self.learning_rate)
        non_negative("weight_decay", self.weight_decay)
        non_negative("average", self.average)
        if not self.average < 1:
            raise InvalidInput(f"average must be below 1, got {self.average!r}.")
        if self.augmentation not in ("none", "weak", "moderate", "strong"):
            raise InvalidInput(f"augmentation must be none, weak, moderate or strong, got {self.augmentation!r}.")
        if self.random_state is not None:
            whole("random_state", self.random_state)

    def _new(self) -> Any:
        return build_network(self.network, self.shape_, len(self.classes_))

    def _logits(self, X: Any) -> Tensor:
        return self._outputs(X, images=wants_images(self.network), batch=512)


def beside(draw: torch.Generator, x: Tensor) -> torch.Generator:
    """Return a generator on the device of `x`, which follows the one on the CPU."""
    if x.device.type == "cpu":
        return draw
    return generator(int(torch.randint(2**62, (), generator=draw)), x.device)


@torch.no_grad()
def outputs_of(module: Any, blocks: Iterable[FloatArray], device: Any, *, strict: bool = True) -> Tensor:
    """Return the outputs of a module in evaluation mode on that device, on the CPU; `strict` as in `repeatable`."""
    # With all 32 bits: the export of the same network, on a CPU, answers alike.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False), repeatable(device, strict=strict):
        return torch.cat([module(torch.from_numpy(block).to(device)).cpu() for block in blocks])
