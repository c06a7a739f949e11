"""Where randomness and devices come from: nothing reads or changes PyTorch's global generator."""

import threading

import numpy as np
import pytest

pytest.importorskip("torch")

from ostrakon.networks.backend import generator, nn, pick_device, repeatable, seeded, torch
from ostrakon.validation import InvalidInput


@pytest.mark.parametrize("seed", [7, np.random.SeedSequence(7)], ids=["number", "sequence"])
def test_inside_the_seed_decides_and_outside_nothing_has_changed(seed):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    drawn = []
    for _ in range(2):
        with seeded(seed):
            drawn.append(torch.rand(5))
    assert torch.equal(*drawn)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(drawn[0], torch.rand(5))


def test_the_global_generator_comes_back_after_an_error():
    before = torch.random.get_rng_state()
    with pytest.raises(InvalidInput), seeded(1):
        pick_device(str(torch.rand(1)))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_threads_do_not_draw_from_each_other():
    expected = []
    for seed in range(4):
        with seeded(seed):
            expected.append(torch.rand(1000))
    found = [torch.empty(0)] * 4

    def draw(seed):
        with seeded(seed):
            found[seed] = torch.cat([torch.rand(10) for _ in range(100)])

    threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_a_generator_is_its_own():
    state = torch.random.get_rng_state()
    first, second = np.random.SeedSequence(5).spawn(2)
    one, again, other = (torch.rand(4, generator=generator(seed)) for seed in (first, first, second))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_devices():
    assert pick_device("cpu").type == "cpu"
    assert pick_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    for unknown in ("abacus", "cuda:99"):
        with pytest.raises(InvalidInput, match=f"device must be one that PyTorch finds here.*{unknown}"):
            pick_device(unknown)


def test_equal_bits_on_an_accelerator_leave_no_trace():
    def settings():
        return torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark

    before = settings()

    def broken():
        with repeatable(torch.device("cuda")):
            assert settings() == (True, False)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert settings() == before
    with repeatable(torch.device("cpu")):
        assert settings() == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_layer_without_equal_bits_is_refused_or_used_as_it_is():
    device = pick_device()
    layer, x = nn.AdaptiveAvgPool2d(2), torch.ones(1, 1, 7, 7, device=device, requires_grad=True)
    with pytest.raises(InvalidInput, match=r"device must be 'cpu'.*adaptive_avg_pool2d"), repeatable(device):
        layer(x).sum().backward()
    with repeatable(device, strict=False):
        layer(x).sum().backward()
