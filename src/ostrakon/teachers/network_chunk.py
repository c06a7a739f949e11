"""One chunk of network teachers: common settings, training and predictions."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostrakon.networks.architectures import Factory, build_network
from ostrakon.networks.backend import F, Tensor, generator, nn, repeatable, seeded, torch
from ostrakon.networks.inputs import FloatArray, as_inputs, moments, standardized
from ostrakon.networks.stacked import Forward, fold_scale, grouped, mapped
from ostrakon.teachers.one_teacher import ABSTAIN, Abstainer

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """The common settings of all chunks of an ensemble; none depends on a private row.

    size: networks per chunk; every chunk but the last has exactly that many, so that the arithmetic of a teacher
    depends on its index alone.
    """

    network: str | Factory
    shape: tuple[int, ...]
    classes: int
    mode: str
    size: int
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int
    device: str

    def chunks(self, teachers: int) -> Iterator[range]:
        """Yield the teachers of each chunk."""
        for start in range(0, teachers, self.size):
            yield range(start, min(start + self.size, teachers))

    def build(self, index: int) -> nn.Module:
        """Return the untrained network of teacher `index`."""
        with seeded(np.random.SeedSequence(self.seed, spawn_key=(index, 0))):
            return build_network(self.network, self.shape, self.classes)

    def schedule(self, index: int, rows: int) -> NDArray[np.int64]:
        """Return row positions of every step, shape (steps, batch_size), -1 for padding: each row once per epoch."""
        draw = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(index, 1)))
        per_epoch = -(-rows // self.batch_size)
        steps = np.full((self.epochs * per_epoch, self.batch_size), -1, np.int64)
        for step, part in enumerate(
            part for _ in range(self.epochs) for part in np.array_split(draw.permutation(rows), per_epoch)
        ):
            steps[step, : len(part)] = part
        return steps


@dataclass(frozen=True, kw_only=True)
class NetworkTeacher:
    """One trained network, as arrays. mean, deviation: the scale of its inputs, per channel or column."""

    plan: Chunk
    mean: FloatArray
    deviation: FloatArray
    weights: dict[str, NDArray[Any]] = field(repr=False)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return class indices, shape (examples,)."""
        inputs = as_inputs(X, images=len(self.plan.shape) == 3)
        return predict_chunk(self.plan, [self], inputs)[0]


def train_chunk(plan: Chunk, indices: range, rows: list[tuple[Any, NDArray[np.int64]]]) -> list[Any]:
    """Train the teachers of one chunk, each on its (X, y); a teacher without rows becomes an abstainer."""
    inputs = [
        as_inputs(X, images=len(plan.shape) == 3) if len(y) else np.zeros((1, *plan.shape), np.float32) for X, y in rows
    ]
    scales = [_scale(x) for x in inputs]
    inputs = [standardized(x, *scale) for x, scale in zip(inputs, scales, strict=True)]
    targets = [y if len(y) else np.zeros(1, np.int64) for _, y in rows]
    schedules = [plan.schedule(index, len(x)) for index, x in zip(indices, inputs, strict=True)]
    networks = [plan.build(index) for index in indices]
    with repeatable(torch.device(plan.device)):
        if plan.mode == "one-by-one":
            states = [
                _train_alone(plan, network, x, y, schedule, index=index)
                for index, network, x, y, schedule in zip(indices, networks, inputs, targets, schedules, strict=True)
            ]
        else:
            states = _train_together(plan, networks, inputs, targets, schedules, first=indices[0])
    return [
        NetworkTeacher(plan=plan, mean=scale[0], deviation=scale[1], weights=state) if len(y) else Abstainer()
        for state, scale, (_, y) in zip(states, scales, rows, strict=True)
    ]


def predict_chunk(plan: Chunk, models: list[Any], inputs: FloatArray) -> NDArray[np.int64]:
    """Return class indices of every model for all inputs, shape (models, inputs); -1 for those that abstain."""
    abstaining = [isinstance(model, Abstainer) for model in models]
    if all(abstaining):
        return np.full((len(models), len(inputs)), ABSTAIN, np.int64)
    device = torch.device(plan.device)
    # An abstaining teacher keeps its position, because rounding may depend on the position.
    chosen = [_untrained(plan) if abstains else model for model, abstains in zip(models, abstaining, strict=True)]
    with repeatable(device):
        if plan.mode == "one-by-one":
            out = np.stack([_predict_alone(plan, model, inputs, device) for model in chosen])
        else:
            out = _predict_together(plan, chosen, inputs, device)
    out[abstaining] = ABSTAIN
    return out


def _untrained(plan: Chunk) -> NetworkTeacher:
    state = {name: value.numpy().copy() for name, value in plan.build(0).state_dict().items()}
    zeros = np.zeros(plan.shape[0], np.float32)
    return NetworkTeacher(plan=plan, mean=zeros, deviation=zeros + 1, weights=state)


def _scale(inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
    if inputs.ndim == 2:
        return moments(inputs)
    # Images are only divided: black stays 0, as in the padding of convolutions, and the scale can be folded into the
    # weights of the first layer.
    root = float(np.sqrt(np.mean(np.square(inputs, dtype=np.float64))))
    deviation = np.full(inputs.shape[1], root if root > 0 else 1.0, np.float32)
    return np.zeros_like(deviation), deviation


def _train_together(
    plan: Chunk,
    networks: list[nn.Module],
    inputs: list[FloatArray],
    targets: list[NDArray[np.int64]],
    schedules: list[NDArray[np.int64]],
    *,
    first: int,
) -> list[dict[str, NDArray[Any]]]:
    device = torch.device(plan.device)
    learned = {
        name: torch.stack([network.get_parameter(name).detach() for network in networks]).to(device).requires_grad_()
        for name, _ in networks[0].named_parameters()
    }
    fixed = {
        name: torch.stack([network.get_buffer(name) for network in networks]).to(device)
        for name, _ in networks[0].named_buffers()
    }
    weights = {**learned, **fixed}
    seed = np.random.SeedSequence(plan.seed, spawn_key=(first, 2))
    forward = _forward(plan, networks[0], training=True, draw=generator(seed, device))
    optimiser = _Adam(plan, learned, [len(schedule) for schedule in schedules])
    longest = max(len(x) for x in inputs)
    # One row more than the longest shard, for padding: an image of zeros with weight 0.
    data = torch.zeros(len(inputs), longest + 1, *plan.shape)
    labels = torch.zeros(len(inputs), longest + 1, dtype=torch.long)
    for index, (x, y) in enumerate(zip(inputs, targets, strict=True)):
        data[index, : len(x)] = torch.from_numpy(x)
        labels[index, : len(y)] = torch.from_numpy(y)
    data, labels = data.to(device), labels.to(device)
    steps = max(len(schedule) for schedule in schedules)
    order = np.full((steps, len(inputs), plan.batch_size), -1, np.int64)
    for index, schedule in enumerate(schedules):
        order[: len(schedule), index] = schedule
    counted = torch.from_numpy(order >= 0)
    share = (counted / counted.sum(dim=2, keepdim=True).clamp(min=1)).float().to(device)
    chosen = torch.from_numpy(np.where(order >= 0, order, longest)).to(device)
    network_index = torch.arange(len(inputs), device=device)[:, None]
    draws = plan.mode == "vmap" and any(isinstance(layer, _DROPOUTS) for layer in networks[0].modules())
    with seeded(seed) if draws else nullcontext():
        for step in range(steps):
            at = chosen[step]
            logits = forward(weights, data[network_index, at], False)
            losses = F.cross_entropy(logits.flatten(0, 1), labels[network_index, at].flatten(), reduction="none")
            optimiser.step(step, losses @ share[step].flatten())
    return [
        {name: value.detach()[index].cpu().numpy().copy() for name, value in weights.items()}
        for index in range(len(networks))
    ]


class _Adam:
    """Adam on stacked weights, where every network follows the schedule of its own length and then stops."""

    def __init__(self, plan: Chunk, weights: dict[str, Tensor], steps: list[int]) -> None:
        self.weights = list(weights.values())
        self.steps = sorted(set(steps))
        self.indices = [[index for index, own in enumerate(steps) if own == length] for length in self.steps]
        self.slices = [
            [value.detach()[index] for index in indices for value in self.weights] for indices in self.indices
        ]
        self.optimisers = [
            torch.optim.AdamW(own, lr=plan.learning_rate, betas=(0.9, 0.99), weight_decay=plan.weight_decay, fused=True)
            for own in self.slices
        ]
        self.rate = plan.learning_rate

    def step(self, step: int, loss: Tensor) -> None:
        # The fused kernel needs weights and gradients with the same memory layout.
        gradients = [gradient.contiguous() for gradient in torch.autograd.grad(loss, self.weights)]
        for length, indices, own, optimiser in zip(self.steps, self.indices, self.slices, self.optimisers, strict=True):
            if step >= length:
                continue
            mine = (gradient[index] for index in indices for gradient in gradients)
            for value, gradient in zip(own, mine, strict=True):
                value.grad = gradient
            optimiser.param_groups[0]["lr"] = self.rate * _rate_factor(step, length)
            optimiser.step()


def _train_alone(
    plan: Chunk,
    network: nn.Module,
    inputs: FloatArray,
    targets: NDArray[np.int64],
    schedule: NDArray[np.int64],
    *,
    index: int,
) -> dict[str, NDArray[Any]]:
    device = torch.device(plan.device)
    network = network.to(device).train()
    data, labels = torch.from_numpy(inputs).to(device), torch.from_numpy(targets).to(device)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=plan.learning_rate, betas=(0.9, 0.99), weight_decay=plan.weight_decay
    )
    with seeded(np.random.SeedSequence(plan.seed, spawn_key=(index, 2))):
        for step, row in enumerate(schedule):
            own = row[row >= 0]
            # A single row twice: the same mean, of which batch norm can take a deviation.
            chosen = torch.from_numpy(own if len(own) > 1 else own.repeat(2)).to(device)
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(network(data[chosen]), labels[chosen]).backward()
            optimiser.param_groups[0]["lr"] = plan.learning_rate * _rate_factor(step, len(schedule))
            optimiser.step()
    return {name: value.cpu().numpy().copy() for name, value in network.state_dict().items()}


@torch.inference_mode()
def _predict_together(plan: Chunk, models: list[NetworkTeacher], inputs: FloatArray, device: Any) -> NDArray[np.int64]:
    weights = {
        name: torch.from_numpy(np.stack([model.weights[name] for model in models])).to(device)
        for name in models[0].weights
    }
    mean = torch.from_numpy(np.stack([model.mean for model in models])).to(device)
    scale = torch.from_numpy(np.stack([model.deviation for model in models])).to(device)
    network = plan.build(0)
    shared = fold_scale(network, weights, None if len(plan.shape) == 3 else mean, scale)
    forward = _forward(plan, network, training=False)
    # On an accelerator the rows of four steps of training: they need about as much memory as one step.
    batch = 64 if device.type == "cpu" else 4 * plan.batch_size
    between = (len(models), 1, -1, *(1,) * len(plan.shape[1:]))
    parts = []
    for start in range(0, len(inputs), batch):
        x = torch.from_numpy(inputs[start : start + batch]).to(device)
        if not shared:
            x = (x - mean.view(between)) / scale.view(between)
        parts.append(forward(weights, x, shared).argmax(dim=2))
    return torch.cat(parts, dim=1).cpu().numpy()


@torch.inference_mode()
def _predict_alone(plan: Chunk, model: NetworkTeacher, inputs: FloatArray, device: Any) -> NDArray[np.int64]:
    network = plan.build(0)
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in model.weights.items()})
    network = network.to(device).eval()
    parts = []
    for start in range(0, len(inputs), 1000):
        x = torch.from_numpy(standardized(inputs[start : start + 1000], model.mean, model.deviation)).to(device)
        parts.append(network(x).argmax(dim=1))
    return torch.cat(parts).cpu().numpy()


def _forward(plan: Chunk, network: nn.Module, *, training: bool, draw: torch.Generator | None = None) -> Forward:
    if plan.mode == "vmap":
        return mapped(network.to(plan.device), training=training)
    return grouped(network, draw=draw if training else None)


def _rate_factor(step: int, steps: int) -> float:
    return min((step + 1) / 10, 0.5 * (1 + math.cos(math.pi * step / steps)))
