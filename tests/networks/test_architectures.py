"""The networks by name: what they read and answer, how many weights they have, and where they start."""

import pytest

pytest.importorskip("torch")

from ostrakon.networks.architectures import ARCHITECTURES, build_network, wants_images
from ostrakon.networks.backend import nn, seeded, torch
from ostrakon.validation import InvalidInput

GREY, COLOUR, TABLE = (1, 28, 28), (3, 32, 32), (7,)


def weights(network) -> int:
    return sum(value.numel() for value in network.parameters())


# Counted by hand: inputs * outputs + outputs of every product, two of every norm's channel.
@pytest.mark.parametrize(
    ("name", "shape", "count"),
    [
        ("mlp", TABLE, 7 * 64 + 64 + 64 * 64 + 64 + 64 * 5 + 5),
        ("mlp", GREY, 784 * 64 + 64 + 64 * 64 + 64 + 64 * 5 + 5),
        ("lenet", GREY, 6 * 26 + 16 * 151 + 400 * 120 + 120 + 120 * 84 + 84 + 84 * 5 + 5),
        ("cnn", COLOUR, 27 * 32 + 64 + 288 * 64 + 128 + 576 * 64 + 128 + 576 * 128 + 256 + 512 * 5 + 5),
        ("quick-cnn", GREY, 25 * 16 + 32 + 144 * 32 + 64 + 288 * 64 + 128 + 576 * 128 + 256 + 128 * 5 + 5),
        (
            "resnet",
            GREY,
            160
            + (2 * 144 * 16 + 64)
            + (144 * 32 + 288 * 32 + 128 + 16 * 32 + 32)
            + (288 * 64 + 576 * 64 + 256 + 32 * 64 + 64)
            + (64 * 5 + 5),
        ),
    ],
)
def test_so_many_weights_and_a_logit_a_class(name, shape, count):
    network = build_network(name, shape, 5).eval()
    assert weights(network) == count
    with torch.no_grad():
        assert network(torch.zeros(3, *shape)).shape == (3, 5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_seed_decides_where_a_network_starts(name):
    def start(seed):
        with seeded(seed):
            return build_network(name, GREY, 4).state_dict()

    first, again, other = start(1), start(1), start(2)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize(("name", "smallest"), [("lenet", 12), ("cnn", 8), ("quick-cnn", 8), ("resnet", 8)])
def test_images_too_small_and_tables_are_refused(name, smallest):
    assert wants_images(name)
    with torch.no_grad():
        least = build_network(name, (1, smallest, smallest + 1), 3).eval()
        assert least(torch.zeros(2, 1, smallest, smallest + 1)).shape == (2, 3)
    for shape in ((1, smallest - 1, smallest), (1, smallest, smallest - 1), TABLE):
        with pytest.raises(InvalidInput, match=f"'{name}' must be given images of at least {smallest}x{smallest}"):
            build_network(name, shape, 3)


def test_none_is_the_fitting_one_and_a_factory_is_asked():
    assert weights(build_network(None, TABLE, 3)) == weights(build_network("mlp", TABLE, 3))
    assert weights(build_network(None, COLOUR, 3)) == weights(build_network("cnn", COLOUR, 3))
    made = build_network(lambda shape, classes: nn.Linear(shape[0], classes), TABLE, 3)
    assert (made.in_features, made.out_features) == (7, 3)
    assert not wants_images("mlp")
    assert not wants_images(None)


@pytest.mark.parametrize(
    ("network", "message"), [("vgg", "mlp, lenet, .* got 'vgg'"), (lambda shape, classes: 3, "torch.nn.Module, got 3")]
)
def test_what_is_no_network_is_refused(network, message):
    with pytest.raises(InvalidInput, match=message):
        build_network(network, TABLE, 3)
