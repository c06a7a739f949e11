"""Hundreds of equal small networks as teachers, trained and evaluated as one vectorized program, chunk by chunk."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import joblib
import numpy as np
from numpy.typing import NDArray

from ostrakon.networks.architectures import Factory, build_network, wants_images
from ostrakon.networks.backend import pick_device, seeded, torch
from ostrakon.networks.classifier import TorchClassifier
from ostrakon.networks.inputs import as_inputs
from ostrakon.networks.stacked import can_group, can_map
from ostrakon.progress import Report
from ostrakon.teachers.ensemble import Teachers, received
from ostrakon.teachers.network_chunk import Chunk, predict_chunk, train_chunk
from ostrakon.teachers.one_teacher import fingerprint_of, specification, stored_or_predicted, stored_or_trained
from ostrakon.teachers.parallel import in_parallel
from ostrakon.teachers.shards import Shards, require_rows
from ostrakon.teachers.store import KeptPiece, TeacherStore
from ostrakon.validation import InvalidInput, whole
from ostrakon.votes import IntArray

MODES = ("grouped", "vmap", "one-by-one")


class TorchEnsemble(TorchClassifier):
    """A network as a teacher; the teachers of an ensemble are trained together.

    network: "lenet", "mlp", "resnet", "cnn", or a factory (shape, classes) -> torch.nn.Module; None: LeNet for images,
    an MLP for tables. epochs: passes of each teacher over its own rows, in batches of `batch_size`.
    mode: "grouped" (stacked layers), "vmap" (any network without running statistics), "one-by-one" (any network), or
    None: the first of these that can run the network. chunk: networks per program, None picks by what fits.
    device: None picks an accelerator where there is one; a GPU adds in a fixed order here, and a network with a layer
    that cannot is refused on it.

    `train_on_shards(TorchEnsemble(...), shards)` and `train_teachers` train the ensemble; `fit` trains one network
    with the same settings, as any scikit-learn classifier. Images are divided by their root mean square, columns of
    tables are standardized, both by the teacher's own rows.

    Guarantee: the start, the number of steps, the batches and the scale of teacher i depend on (seed, i) and its own
    rows alone, in every mode; teachers share nothing, in any chunk.
    """

    def __init__(
        self,
        network: str | Factory | None = None,
        *,
        epochs: int = 20,
        batch_size: int = 32,
        learning_rate: float = 0.003,
        weight_decay: float = 0.01,
        mode: str | None = None,
        chunk: int | None = None,
        random_state: int | None = None,
        device: str | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            network,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            random_state=random_state,
            device=device,
            verbose=verbose,
        )
        self.epochs = epochs
        self.mode = mode
        self.chunk = chunk

    def train_on_shards(
        self,
        shards: Shards,
        *,
        store: TeacherStore | None = None,
        seed: int = 0,
        n_jobs: int | None = -1,
        progress: bool | Report | None = None,
        empty: Literal["refuse", "abstain"] = "refuse",
    ) -> "TorchTeachers":
        """Train one network per shard; see `ostrakon.teachers.train_on_shards` for the arguments and errors.

        n_jobs: chunks that are trained at once on a CPU, one thread each; on an accelerator one at a time.
        Every teacher is saved when its chunk is finished; a killed run trains only the chunks that are missing.
        """
        self._check()
        seed = whole("seed", seed)
        require_rows(shards, empty)
        plan = self._plan(shards, seed)
        if store is not None:
            store.open(specification(self, classes=shards.classes, n_teachers=shards.n_teachers, seed=seed))
        tasks = (
            joblib.delayed(_train)(plan, shards, piece, indices, store)
            for piece, indices in enumerate(plan.chunks(shards.n_teachers))
        )
        trained = received(_in_parallel(plan, n_jobs, tasks), shards, progress=progress)
        return TorchTeachers(**trained, n_jobs=n_jobs, plan=plan)

    def _steps(self, rows: int) -> int:
        return self.epochs * -(-rows // self.batch_size)

    def _plan(self, shards: Shards, seed: int) -> Chunk:
        whole("epochs", self.epochs, at_least=1)
        network = self.network
        first = next(index for index in range(shards.n_teachers) if shards.sizes[index])
        rows = shards.part(range(first, first + 1)).load()[0][0]
        shape = as_inputs(rows[:1], images=wants_images(network)).shape[1:]
        if network is None:
            network = "mlp" if len(shape) == 1 else "lenet"
        with seeded(0):
            sample = build_network(network, shape, len(shards.classes))
        mode = self.mode or ("grouped" if can_group(sample) else "vmap" if can_map(sample) else "one-by-one")
        if mode not in MODES:
            raise InvalidInput(f"mode must be one of {', '.join(MODES)}, got {self.mode!r}.")
        if mode == "grouped" and not can_group(sample):
            raise InvalidInput("mode 'grouped' must be given a sequence of plain layers; use 'vmap' or 'one-by-one'.")
        if mode == "vmap" and not can_map(sample):
            raise InvalidInput("mode 'vmap' must be given a network without batch norm; use 'one-by-one'.")
        device = pick_device(self.device)
        size = self.chunk
        if size is None:
            fitting = 1 if mode == "one-by-one" else _chunk_size(device, sample, tuple(shape), self.batch_size)
            size = min(fitting, shards.n_teachers)
        return Chunk(
            network=network,
            shape=tuple(shape),
            classes=len(shards.classes),
            mode=mode,
            size=whole("chunk", size, at_least=1),
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=seed,
            device=str(device),
        )


@dataclass(frozen=True, kw_only=True)
class TorchTeachers(Teachers):
    """Trained networks that predict together, chunk by chunk."""

    plan: Chunk

    @property
    def pieces(self) -> list[range]:
        """The networks that are trained, stored and evaluated together."""
        return list(self.plan.chunks(self.n_teachers))

    def predict(self, X: Any, *, progress: bool | Report | None = None) -> IntArray:
        """Return class indices (queries, n_teachers), -1 where a teacher abstains; kept per teacher in a store.
        Private.
        """
        inputs = as_inputs(X, images=len(self.plan.shape) == 3)
        if inputs.shape[1:] != self.plan.shape:
            raise InvalidInput(
                f"X must have rows of shape {self.plan.shape}, as the private rows, got {inputs.shape[1:]}."
            )
        key = fingerprint_of(X) if self.kept is not None else ""
        tasks = (joblib.delayed(_ask)(self, inputs, piece, indices, key) for piece, indices in enumerate(self.pieces))
        answers = _in_parallel(self.plan, self.n_jobs, tasks)
        return self._collect(answers, queries=len(inputs), progress=progress)


def _train(
    plan: Chunk, shards: Shards, piece: int, indices: range, store: TeacherStore | None
) -> tuple[range, list[Any] | KeptPiece]:
    rows = shards.part(indices).load()
    return indices, stored_or_trained(store, piece, rows, lambda: train_chunk(plan, indices, rows))


def _ask(
    teachers: TorchTeachers, inputs: NDArray[np.float32], piece: int, indices: range, key: str
) -> tuple[range, IntArray]:
    models = teachers.piece_models(piece, indices)
    return indices, stored_or_predicted(models, key, lambda known: predict_chunk(teachers.plan, list(known), inputs))


def _in_parallel(plan: Chunk, n_jobs: int | None, tasks: Iterable[Any]) -> Iterator[Any]:
    count = 1 if plan.device != "cpu" else joblib.effective_n_jobs(n_jobs)
    # Threads share the private rows without copying them, and PyTorch's layers release Python's lock. One small network
    # after another would mostly hold that lock, so that mode uses processes.
    how: dict[str, Any] = {"max_nbytes": None} if plan.mode == "one-by-one" else {"prefer": "threads"}
    threads = torch.get_num_threads()
    if count > 1:
        # Workers use all cores; PyTorch's own threads in each would compete for them.
        torch.set_num_threads(1)
    try:
        yield from in_parallel(tasks, n_jobs=count, **how)
    finally:
        torch.set_num_threads(threads)


def _chunk_size(device: Any, network: Any, shape: tuple[int, ...], batch_size: int) -> int:
    if device.type == "cpu":
        # Measured best for LeNet on two cores: the activations of a batch still fit the cache.
        return 8
    # Of the device's memory, not of what is free now: that depends on what ran before, and a teacher's last bits on it.
    whole_device = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 2**32
    return max(1, whole_device // 2 // memory_of(network, shape, batch_size))


def memory_of(network: Any, shape: tuple[int, ...], batch_size: int) -> int:
    """Bytes that one network takes among others in training, about: its weights, and the values of one batch."""
    values = 0

    def count(layer: Any, inputs: Any, output: Any) -> None:
        nonlocal values
        values += output.numel() if isinstance(output, torch.Tensor) else 0

    hooks = [layer.register_forward_hook(count) for layer in network.modules() if not list(layer.children())]
    with torch.no_grad():
        network.eval()(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    # Weights, their gradients (twice while they are sorted) and two moments; values, their gradients, and a workspace.
    return 4 * (6 * sum(value.numel() for value in network.parameters()) + 4 * batch_size * values)
