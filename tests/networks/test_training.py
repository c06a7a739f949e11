"""The one loop: its steps, its averaged weights, its early stop, and the batches it is fed."""

import itertools

import pytest

pytest.importorskip("torch")

from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ostrakon.networks import training
from ostrakon.networks.backend import generator, nn, seeded, torch


def linear(seed=0):
    with seeded(seed):
        return nn.Linear(2, 1)


def test_it_finds_the_least_squares():
    x = torch.randn(200, 2, generator=generator(0))
    y = x @ torch.tensor([[2.0], [-1.0]]) + 0.5
    module = linear()
    taken = training.train(module, lambda step: (module(x) - y).square().mean(), steps=400, learning_rate=0.05)
    assert taken == 400
    assert not module.training
    assert torch.allclose(module.weight, torch.tensor([[2.0, -1.0]]), atol=1e-3)
    assert module.bias.item() == pytest.approx(0.5, abs=1e-3)


def test_the_rate_rises_falls_and_weights_without_gradient_only_decay():
    module, seen = linear(), []
    before = module.weight.detach().clone()

    def loss_of(step):
        seen.append(module.weight.detach().clone())
        return 0.0 * module.weight.sum() + 0.0 * module.bias.sum()

    training.train(module, loss_of, steps=100, learning_rate=0.1, weight_decay=0.5)
    shrunk = [float((after / then).mean()) for then, after in itertools.pairwise(seen)]
    # A step multiplies by 1 - rate * decay: the rate is least at both ends.
    rates = [(1 - factor) / 0.05 for factor in shrunk]
    assert rates[0] == pytest.approx(0.2, rel=1e-3)  # the first of five rising steps
    assert max(rates) <= 1
    assert rates[4] == pytest.approx(max(rates), rel=0.02)
    assert rates[-1] < 0.01
    assert torch.equal(seen[0], before)


def test_the_running_average_is_pytorchs_exponential_one():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    ours = training.Averaged(module, 0.9)
    theirs = AveragedModel(module, use_buffers=True, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    theirs.update_parameters(module)  # its first call copies
    ours.steps = 10**9  # far from the start, where the decay is the given one
    for step in range(20):
        with torch.no_grad():
            module[0].weight.add_(torch.randn(3, 3, generator=generator(step)))
        module(torch.randn(8, 3, generator=generator(100 + step)))
        ours.update(module)
        theirs.update_parameters(module)
    expected = theirs.module.state_dict()
    for name, value in ours.values.items():
        if value.dtype.is_floating_point:
            assert torch.allclose(value, expected[name], rtol=1e-5, atol=1e-6), name
        else:
            assert torch.equal(value, module.state_dict()[name])
    assert not torch.allclose(ours.values["0.weight"], module[0].weight, atol=1e-2)


def test_the_start_is_soon_forgotten():
    module = nn.Linear(1, 1)
    with torch.no_grad():
        module.weight.fill_(0.0)
        average = training.Averaged(module, 0.999)
        module.weight.fill_(1.0)
    for _ in range(30):
        average.update(module)
    # The plain decay would have kept 0.999 ** 30 = 0.97 of the start.
    assert average.values["weight"].item() > 0.99


def test_the_average_replaces_the_last_weights():
    module, seen = linear(), []

    def loss_of(step):
        seen.append(module.weight.detach().clone())
        return module.weight.sum() + module.bias.sum()

    training.train(module, loss_of, steps=60, learning_rate=0.1, average=0.9)
    # Weights only fall, so their average lies above the last ones.
    assert (module.weight > seen[-1]).all()
    assert (module.weight < seen[0]).all()


@pytest.mark.parametrize(("patience", "taken"), [(0, 200), (1, 60), (3, 80)])
def test_it_ends_when_classes_stand_still(patience, taken):
    module = nn.Linear(1, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0], [-1.0]]))
    probe = torch.linspace(-1, 1, 50)[:, None]
    found = training.train(
        module, lambda step: 0 * module.weight.sum(), steps=200, learning_rate=0.1, probe=probe, patience=patience
    )
    # Looked at every 10 steps from 50 on; the first look has none before it.
    assert found == taken


def test_outputs_are_those_of_evaluation_and_leave_the_mode():
    module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    x = torch.randn(33, 2, generator=generator(0))
    made = training.outputs(module, x, batch=8)
    assert module.training
    with torch.no_grad():
        assert torch.allclose(made, module.eval()(x), atol=1e-6)


def test_every_position_comes_once_before_any_comes_again():
    stream = training.batches(10, 4, generator(0))
    drawn = torch.cat([next(stream) for _ in range(25)]).tolist()
    for start in range(0, 100, 10):
        assert sorted(drawn[start : start + 10]) == list(range(10))
    assert drawn[:10] != drawn[10:20]
    again = training.batches(10, 4, generator(0))
    assert next(again).tolist() == drawn[:4]
    large = next(training.batches(3, 7, generator(0))).tolist()
    assert sorted(large[:3]) == sorted(large[3:6]) == [0, 1, 2]


def test_every_class_comes_equally_often():
    targets = torch.tensor([0] * 97 + [5] * 2 + [9])
    stream = training.balanced(targets, 9, generator(0))
    drawn = torch.cat([next(stream) for _ in range(20)])
    assert torch.bincount(targets[drawn], minlength=10)[[0, 5, 9]].tolist() == [60, 60, 60]
    assert len(set(drawn[targets[drawn] == 0].tolist())) == 60  # of 97, none twice
    assert set(drawn[targets[drawn] == 5].tolist()) == {97, 98}


def test_progress_is_silent_unless_asked(capsys):
    for verbose in (0, 1):
        with training.progress("Learning", 3, verbose) as tick:
            for _ in range(3):
                tick()
        said = capsys.readouterr()
        assert said.out == ""
        assert ("Learning" in said.err) == bool(verbose)
