"""Hundreds of networks as one program: the same teachers as one after another, each on its own rows alone."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

pytest.importorskip("torch")

from torch import nn

from ostrakon.networks.architectures import lenet, resnet
from ostrakon.networks.backend import torch
from ostrakon.networks.stacked import can_group, can_map, fold_scale, grouped, mapped
from ostrakon.teachers import TeacherStore, train_teachers
from ostrakon.teachers.network_chunk import Chunk
from ostrakon.teachers.torch_ensemble import TorchEnsemble, memory_of
from ostrakon.validation import InvalidInput

N_TEACHERS = 6


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    # Shards of unequal sizes, one of them tiny.
    assignment = np.random.default_rng(3).choice(N_TEACHERS, size=900, p=[0.25, 0.25, 0.2, 0.15, 0.13, 0.02])
    return X.reshape(-1, 8, 8).astype(np.float32), y, assignment


def train(digits, estimator=None, **options):
    X, y, assignment = digits
    estimator = estimator if estimator is not None else TorchEnsemble("mlp", epochs=15, learning_rate=0.01, chunk=4)
    options = {"n_teachers": N_TEACHERS, "classes": 10, "seed": 5, "n_jobs": 1, **options}
    return train_teachers(estimator, X[:900], y[:900], assignment, **options)


def small_cnn(shape, classes):
    return nn.Sequential(
        nn.Conv2d(shape[0], 6, 3, padding=1),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(6, 12, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, classes),
    )


def with_dropout(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, classes))


def with_batch_norm(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, classes))


class Doubled(nn.Module):
    """A network that is no sequence: it can be mapped, not grouped."""

    def __init__(self, classes):
        super().__init__()
        self.left, self.right = nn.Linear(64, classes), nn.Linear(64, classes)

    def forward(self, x):
        x = x.flatten(1)
        return self.left(x) * torch.sigmoid(self.right(x))


def doubled(shape, classes):
    return Doubled(classes)


@pytest.mark.parametrize("factory", [lenet, resnet, small_cnn], ids=lambda factory: factory.__name__)
def test_stacked_networks_compute_what_each_computes_alone(factory):
    torch.manual_seed(0)
    shape = (2, 16, 16) if factory is not small_cnn else (2, 8, 8)
    networks = [factory(shape, 5) for _ in range(3)]
    names = [name for name, _ in networks[0].named_parameters()]
    weights = {
        name: torch.stack([net.get_parameter(name).detach() for net in networks]).requires_grad_() for name in names
    }
    inputs = torch.randn(3, 4, *shape)
    alone = torch.stack([network(x) for network, x in zip(networks, inputs, strict=True)])
    same = torch.stack([network(inputs[0]) for network in networks])
    wanted = [
        torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
        for net, x in zip(networks, inputs, strict=True)
    ]
    assert can_group(networks[0])
    assert can_map(networks[0])
    for forward in (grouped(networks[0]), mapped(networks[0])):
        torch.testing.assert_close(forward(weights, inputs, False), alone, atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(forward(weights, inputs[0], True), same, atol=2e-6, rtol=1e-5)
        found = torch.autograd.grad(forward(weights, inputs, False).square().sum(), list(weights.values()))
        for gradient, parts in zip(found, zip(*wanted, strict=True), strict=True):
            torch.testing.assert_close(gradient, torch.stack(parts), atol=2e-5, rtol=1e-4)
        with torch.inference_mode():
            # Pooling without gradients takes another way.
            torch.testing.assert_close(forward(weights, inputs[0], True), same, atol=2e-6, rtol=1e-5)
            scale = torch.rand(3, 2) + 0.5
            folded = dict(weights)
            assert fold_scale(networks[0], folded, None, scale)
            scaled = inputs[0] / scale[:, None, :, None, None]
            torch.testing.assert_close(
                forward(folded, inputs[0], True), forward(weights, scaled, False), atol=5e-6, rtol=1e-4
            )


@pytest.mark.slow
@pytest.mark.parametrize("network", ["mlp", small_cnn], ids=["mlp", "cnn"])
def test_every_mode_trains_the_same_teachers(digits, network):
    X, y, _ = digits
    answers = {
        mode: train(digits, TorchEnsemble(network, epochs=15, learning_rate=0.01, mode=mode, chunk=4)).predict(X[900:])
        for mode in ("one-by-one", "vmap", "grouped")
    }
    alone = answers["one-by-one"]
    accuracy = (alone == y[900:, None]).mean(axis=0)
    assert accuracy[:4].min() > 0.75
    # The tiny shard learns little: each teacher has its own rows alone.
    assert accuracy[5] < accuracy[:4].min()
    for other in answers.values():
        # The same start, batches and steps; only the order of float sums differs.
        assert (other == alone).mean() > 0.99


def test_a_teacher_depends_on_its_own_rows_alone(digits):
    X, y, assignment = digits
    before = train(digits)
    # Teacher 0 loses three quarters of its rows and gets other labels: its steps, batches and scale all change.
    kept = (assignment != 0) | (np.cumsum(assignment == 0) % 4 == 0)
    changed = np.where(assignment[kept] == 0, 9 - y[:900][kept], y[:900][kept])
    after = train_teachers(
        TorchEnsemble("mlp", epochs=15, learning_rate=0.01, chunk=4),
        np.where((assignment == 0)[:, None, None], 40 * X[:900], X[:900])[kept],
        changed,
        assignment[kept],
        n_teachers=N_TEACHERS,
        classes=10,
        seed=5,
        n_jobs=1,
    )
    assert not np.array_equal(before.model(0).weights["1.weight"], after.model(0).weights["1.weight"])
    for index in range(1, N_TEACHERS):
        for name, value in before.model(index).weights.items():
            np.testing.assert_array_equal(value, after.model(index).weights[name])


def test_the_steps_of_a_teacher_follow_from_its_own_size():
    plan = Chunk(
        network="mlp",
        shape=(4,),
        classes=2,
        mode="grouped",
        size=2,
        epochs=3,
        batch_size=8,
        learning_rate=0.1,
        weight_decay=0,
        seed=1,
        device="cpu",
    )
    schedule = plan.schedule(0, 20)
    assert schedule.shape == (9, 8)
    for epoch in schedule.reshape(3, -1):
        assert sorted(epoch[epoch >= 0]) == list(range(20))
    # Batches of an epoch are as equal as can be: 7, 7 and 6 rows, not 8, 8 and 4.
    assert (schedule >= 0).sum(axis=1).min() == 6
    assert not np.array_equal(plan.schedule(1, 20), schedule)
    np.testing.assert_array_equal(plan.schedule(0, 20), schedule)


def test_same_seed_same_teachers_whatever_the_workers(digits):
    X, *_ = digits
    one = train(digits).predict(X)
    np.testing.assert_array_equal(one, train(digits, n_jobs=2).predict(X))
    assert not np.array_equal(one, train(digits, seed=6).predict(X))


@pytest.mark.parametrize(
    ("factory", "mode"),
    [(with_dropout, "grouped"), (with_dropout, "vmap"), (with_batch_norm, None), (doubled, None)],
    ids=["dropout-grouped", "dropout-vmap", "batch-norm", "no-sequence"],
)
def test_any_network_is_a_teacher(digits, factory, mode):
    X, y, _ = digits
    estimator = TorchEnsemble(factory, epochs=15, learning_rate=0.01, mode=mode, chunk=3)
    teachers = train(digits, estimator)
    answers = teachers.predict(X[900:])
    assert (answers[:, :3] == y[900:, None]).mean() > 0.8
    np.testing.assert_array_equal(answers, train(digits, estimator).predict(X[900:]))
    # One teacher asked alone says what it says among the others.
    assert (teachers.model(1).predict(X[900:]) == answers[:, 1]).mean() > 0.995


@pytest.mark.slow
def test_tables_are_standardized_by_each_teachers_rows(digits):
    X, y, assignment = digits
    rng = np.random.default_rng(0)
    table = X.reshape(-1, 64) * rng.uniform(0.01, 100, 64) + rng.uniform(-1000, 1000, 64)
    for mode in ("grouped", "vmap", "one-by-one"):
        teachers = train_teachers(
            TorchEnsemble(epochs=15, learning_rate=0.01, chunk=4, mode=mode),
            table[:900],
            y[:900],
            assignment,
            n_teachers=N_TEACHERS,
            classes=10,
            n_jobs=1,
        )
        assert (teachers.predict(table[900:])[:, :4] == y[900:, None]).mean() > 0.8


def test_a_teacher_without_rows_abstains_or_is_refused(digits):
    X, y, assignment = digits
    moved = np.where(assignment == 2, 3, assignment)
    with pytest.raises(InvalidInput, match="no rows"):
        train((X, y, moved))
    teachers = train((X, y, moved), empty="abstain")
    answers = teachers.predict(X[900:])
    assert (answers[:, 2] == -1).all()
    assert (answers[:, [0, 1, 3, 4, 5]] >= 0).all()


def test_batch_norm_takes_a_teacher_of_one_row_and_of_none(digits):
    X, y, assignment = digits
    alone = np.where(assignment == 5, 4, assignment)
    alone[0] = 5
    moved = np.where(alone == 2, 3, alone)
    teachers = train((X, y, moved), TorchEnsemble(with_batch_norm, epochs=2), empty="abstain")
    answers = teachers.predict(X[900:])
    assert (answers[:, 2] == -1).all()
    assert (answers[:, 5] >= 0).all()


def test_the_memory_of_a_network_grows_with_weights_and_with_values():
    network = lenet((1, 28, 28), 10)
    weights = sum(value.numel() for value in network.parameters())
    # Two convolutions, two poolings, four activations, and the layers behind.
    values = 6 * 28**2 + 2 * 6 * 14**2 + 16 * 10**2 + 2 * 16 * 5**2 + 400 + 2 * 120 + 2 * 84 + 10
    assert memory_of(network, (1, 28, 28), 32) == 4 * (6 * weights + 4 * 32 * values)


def test_a_killed_run_goes_on_and_ends_the_same(digits, tmp_path, monkeypatch):
    X, *_ = digits
    undisturbed = train(digits).predict(X[900:])
    store = TeacherStore(tmp_path / "teachers")
    saves = []
    save = TeacherStore.save

    def killed(self, piece, models, *, fingerprint):
        # Cut off when the second chunk is about to be saved.
        if len(saves) == 1:
            raise KeyboardInterrupt
        saves.append(piece)
        return save(self, piece, models, fingerprint=fingerprint)

    monkeypatch.setattr(TeacherStore, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        train(digits, store=store)
    saves.clear()
    teachers = train(digits, store=TeacherStore(tmp_path / "teachers"))
    assert saves == [1]
    np.testing.assert_array_equal(teachers.predict(X[900:]), undisturbed)
    saves.clear()
    train(digits, store=TeacherStore(tmp_path / "teachers"))
    assert saves == []
    # Answers are kept too: with every network gone, they are still there.
    for file in (tmp_path / "teachers").glob("teachers-*.bin"):
        file.unlink()
    np.testing.assert_array_equal(teachers.predict(X[900:]), undisturbed)
    with pytest.raises(InvalidInput, match="another run"):
        train(
            digits,
            TorchEnsemble("mlp", epochs=16, learning_rate=0.01, chunk=4),
            store=TeacherStore(tmp_path / "teachers"),
        )


@pytest.mark.slow
def test_fit_trains_one_network_as_scikit_learn_does(digits):
    X, y, _ = digits
    labels = np.array([f"digit {k}" for k in y])
    teacher = TorchEnsemble("mlp", epochs=20, random_state=1)
    fitted = clone(teacher).fit(X[:900], labels[:900])
    assert (fitted.predict(X[900:]) == labels[900:]).mean() > 0.85
    np.testing.assert_array_equal(fitted.predict_proba(X), clone(teacher).fit(X[:900], labels[:900]).predict_proba(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": "alexnet"}, "network"),
        ({"mode": "fast"}, "mode"),
        ({"network": with_batch_norm, "mode": "grouped"}, "grouped"),
        ({"network": with_batch_norm, "mode": "vmap"}, "batch norm"),
        ({"epochs": 0}, "epochs"),
        ({"chunk": 0}, "chunk"),
        ({"batch_size": True}, "batch_size"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"device": "nowhere"}, "device"),
    ],
)
def test_bad_settings_are_refused_by_name(digits, settings, message):
    with pytest.raises(InvalidInput, match=message):
        train(digits, TorchEnsemble(**{"network": "mlp", **settings}))


@pytest.mark.slow
def test_without_torch_the_message_says_what_to_install():
    code = """
import sys


class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)


sys.meta_path.insert(0, NoTorch())
from ostrakon.validation import InvalidInput
import ostrakon.networks, ostrakon.students, ostrakon.teachers
try:
    import ostrakon.teachers.torch_ensemble
except InvalidInput as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "pip install '.[torch]'" in shown
    assert len(shown.strip().splitlines()) == 1
