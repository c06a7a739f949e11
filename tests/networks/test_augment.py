"""Changes of a batch: each row by its own draw, all randomness from the generator, and nothing but what is allowed."""

import pytest

pytest.importorskip("torch")

from ostrakon.networks import augment
from ostrakon.networks.backend import generator, torch

IMAGES = torch.rand(16, 3, 12, 12, generator=generator(0))
TABLE = torch.arange(200, dtype=torch.float32).reshape(40, 5)
NO_CHANGE = {"degrees": 0, "scale": 0, "shear": 0, "shift": 0}


@pytest.mark.parametrize("how", ["weak", "moderate", "strong"])
@pytest.mark.parametrize("x", [IMAGES, TABLE], ids=["images", "table"])
def test_the_generator_decides_and_the_batch_stays_as_it_was(how, x):
    change, before, state = getattr(augment, how), x.clone(), torch.random.get_rng_state()
    first, again, other = (change(x, generator(seed), flip=True) for seed in (1, 1, 2))
    assert first.shape == x.shape
    assert torch.equal(first, again)
    assert torch.equal(x, before)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(first, other) == (how == "weak" and x is TABLE)


def test_no_warp_is_the_image_itself():
    assert torch.allclose(augment.affine(IMAGES, generator(0), **NO_CHANGE), IMAGES, atol=1e-5)
    assert torch.allclose(augment.crop(IMAGES, generator(0), smallest=1.0), IMAGES, atol=1e-5)


def test_a_shift_moves_at_most_its_share_of_the_side():
    points = torch.zeros(300, 1, 16, 16)
    points[:, :, 8, 8] = 1
    moved = augment.affine(points, generator(3), **{**NO_CHANGE, "shift": 1 / 4})
    rows, columns = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    mass = moved[:, 0].sum(dim=(1, 2))
    for axis in (rows, columns):
        distance = (moved[:, 0] * axis).sum(dim=(1, 2)) / mass - 8
        assert distance.abs().max() <= 4 + 1e-4
        assert distance.max() > 3.5
        assert distance.min() < -3.5


def test_a_mirrored_image_is_mirrored_and_half_of_them_are():
    made = augment.mirror(IMAGES.repeat(40, 1, 1, 1), generator(0))
    same = (made == IMAGES.repeat(40, 1, 1, 1)).flatten(1).all(dim=1)
    turned = (made == IMAGES.repeat(40, 1, 1, 1).flip(-1)).flatten(1).all(dim=1)
    assert (same ^ turned).all()
    assert 260 < int(same.sum()) < 380  # of 640, five standard deviations


def test_contrast_is_one_line_a_channel_within_its_bounds():
    made = augment.contrast(IMAGES, generator(0), 0.3)
    x, y = IMAGES.flatten(2), made.flatten(2)
    spread_x, spread_y = x - x.mean(dim=2, keepdim=True), y - y.mean(dim=2, keepdim=True)
    factor = (spread_x * spread_y).sum(dim=2) / spread_x.square().sum(dim=2)
    assert torch.allclose(spread_y, factor[:, :, None] * spread_x, atol=1e-5)
    assert 0.7 <= factor.min() < 0.8
    assert 1.2 < factor.max() <= 1.3
    noise = augment.contrast(torch.zeros(50, 1, 20, 20), generator(0), 0.0, noise=0.1)
    assert noise.std() == pytest.approx(0.1, rel=0.03)


def test_a_blanked_square_is_at_most_its_share():
    made = augment.blank(torch.ones(200, 2, 20, 20), generator(0), share=0.3)
    gone = made == 0
    assert torch.equal(gone[:, 0], gone[:, 1])
    assert set(made.unique().tolist()) == {0.0, 1.0}
    assert int(gone[:, 0].any(dim=2).sum(dim=1).max()) <= 7
    assert int(gone[:, 0].any(dim=1).sum(dim=1).max()) <= 7
    assert gone[:, 0].flatten(1).any(dim=1).float().mean() > 0.5


def test_swapped_values_come_from_the_same_column():
    made = augment.swap_values(TABLE.repeat(50, 1), generator(0), share=0.2)
    assert torch.equal(made % 5, TABLE.repeat(50, 1) % 5)
    assert (made != TABLE.repeat(50, 1)).float().mean() == pytest.approx(0.2 * 39 / 40, abs=0.02)
