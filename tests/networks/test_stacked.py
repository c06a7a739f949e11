"""Many networks as one: each computes what it computes alone, and no other has a say in its last bit."""

import pytest

pytest.importorskip("torch")

from ostrakon.networks.architectures import build_network
from ostrakon.networks.backend import generator, nn, seeded, torch
from ostrakon.networks.stacked import can_group, can_map, fold_scale, grouped, mapped

COUNT, CLASSES = 3, 4
SHAPES = {"mlp": (7,), "lenet": (1, 12, 12), "resnet": (1, 12, 12)}
WAYS = {"grouped": grouped, "mapped": mapped}


def networks(name, seed=0):
    found = []
    for number in range(COUNT):
        with seeded(100 * seed + number):
            found.append(build_network(name, SHAPES[name], CLASSES).eval())
    return found


def stacked(found):
    return {name: torch.stack([network.state_dict()[name] for network in found]) for name in found[0].state_dict()}


def rows(name, count, seed=0):
    return torch.randn(count, 5, *SHAPES[name], generator=generator(seed))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("way", WAYS)
@torch.no_grad()
def test_together_as_alone(name, way):
    found, x = networks(name), rows(name, COUNT)
    made = WAYS[way](found[0])(stacked(found), x, False)
    alone = torch.stack([network(each) for network, each in zip(found, x, strict=True)])
    assert made.shape == (COUNT, 5, CLASSES)
    assert torch.allclose(made, alone, rtol=1e-4, atol=1e-5)
    shared = WAYS[way](found[0])(stacked(found), x[0], True)
    assert torch.allclose(shared, torch.stack([network(x[0]) for network in found]), rtol=1e-4, atol=1e-5)
    # They do differ: one network's answers for all would not pass.
    assert (shared[0] - shared[1]).abs().max() > 1e-2


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shared", [False, True])
@torch.no_grad()
def test_no_other_network_has_a_say_in_the_last_bit(name, way, shared):
    mine, x = networks(name), rows(name, COUNT)
    others, y = networks(name, seed=1), rows(name, COUNT, seed=1)
    for place in range(COUNT):
        mixed = [mine[place] if number == place else others[number] for number in range(COUNT)]
        inputs = torch.stack([x[place] if number == place else y[number] for number in range(COUNT)])
        before = WAYS[way](mine[0])(stacked(mine), x[place] if shared else x, shared)
        after = WAYS[way](mixed[0])(stacked(mixed), x[place] if shared else inputs, shared)
        assert torch.equal(before[place], after[place])
        assert not torch.equal(before[place - 1], after[place - 1])


@pytest.mark.parametrize("way", WAYS)
def test_gradients_stay_apart(way):
    found, x = networks("lenet"), rows("lenet", COUNT)
    weights = {name: value.requires_grad_() for name, value in stacked(found).items()}
    made = WAYS[way](found[0])(weights, x, False)
    made[1].square().sum().backward()
    found[1](x[1]).square().sum().backward()
    for name, value in weights.items():
        assert not value.grad[0].any()
        assert not value.grad[2].any()
        expected = dict(found[1].named_parameters())[name].grad
        assert torch.allclose(value.grad[1], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "lenet"])
@torch.no_grad()
def test_scaling_folds_into_the_first_layer(name):
    found, x = networks(name), rows(name, 1)[0]
    columns = SHAPES[name][0]
    scale = torch.rand(COUNT, columns, generator=generator(1)) + 0.5
    mean = torch.randn(COUNT, columns, generator=generator(2)) if name == "mlp" else None
    weights = stacked(found)
    assert fold_scale(found[0], weights, mean, scale)
    made = grouped(found[0])(weights, x, True)
    for place, network in enumerate(found):
        shape = (1, -1) if name == "mlp" else (1, -1, 1, 1)
        own = (x if mean is None else x - mean[place].view(shape)) / scale[place].view(shape)
        assert torch.allclose(made[place], network(own), rtol=1e-3, atol=1e-4)


def test_where_scaling_cannot_fold_nothing_is_changed():
    found = networks("lenet")
    weights = stacked(found)
    assert not fold_scale(found[0], weights, torch.zeros(COUNT, 1), torch.ones(COUNT, 1))
    assert all(torch.equal(value, weights[name]) for name, value in stacked(found).items())
    no_bias = nn.Sequential(nn.Linear(7, 2, bias=False))
    assert not fold_scale(no_bias, {}, torch.zeros(1, 7), torch.ones(1, 7))
    assert not fold_scale(nn.Sequential(nn.ReLU(), nn.Linear(7, 2)), {}, None, torch.ones(1, 7))


def test_dropout_is_drawn_for_each_network_alone():
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.25))
    weights = {"none": torch.zeros(COUNT, 1)}
    x = torch.ones(COUNT, 400, 10)
    made = grouped(network, draw=generator(0))(weights, x, False)
    assert made.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (made == 0).float().mean() == pytest.approx(0.25, abs=0.02)
    assert not torch.equal(made[0], made[1])
    assert torch.equal(grouped(network)(weights, x, False), x)


def test_which_networks_can_be_stacked():
    for network, group, vmap in (
        (networks("lenet")[0], True, True),
        (build_network("cnn", (1, 12, 12), 2), False, False),
        (nn.Sequential(nn.Conv2d(2, 2, 1, groups=2)), False, True),
        (nn.Sequential(nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular")), False, True),
        (nn.Sequential(nn.Flatten(2)), False, True),
        (nn.Sequential(nn.MaxPool2d(2, ceil_mode=True)), False, True),
        (nn.Sequential(nn.InstanceNorm2d(2)), False, False),
        (nn.Sequential(nn.LayerNorm(2)), False, True),
    ):
        assert (can_group(network), can_map(network)) == (group, vmap)
