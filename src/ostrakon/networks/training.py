"""The training loop of all networks: steps, a falling learning rate, averaged weights, progress, early stopping."""

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ostrakon.networks.backend import Tensor, nn, torch


class Averaged:
    """The running average of the weights of a network, which varies less than the last weights."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.values = {name: value.detach().clone() for name, value in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Move towards the weights of `module`; the first steps move faster, so the start is soon forgotten."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.steps + 10))
        for name, value in module.state_dict().items():
            kept = self.values[name]
            if kept.dtype.is_floating_point:
                kept.lerp_(value, 1 - decay)
            else:
                kept.copy_(value)


def train(
    module: nn.Module,
    loss_of: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    average: float = 0.0,
    label: str = "",
    verbose: int = 0,
    probe: Tensor | None = None,
    patience: int = 0,
    parameters: list[Any] | None = None,
) -> int:
    """Minimise `loss_of(step)` with Adam (decoupled weight decay) over `steps` steps; returns the steps taken.

    The rate rises over the first steps and falls to nothing along a cosine. average: decay of the weights' running
    average, which replaces them at the end (0: the last weights). probe: public inputs; every twentieth of the run
    their predicted classes are compared with the check before, and after `patience` checks in a row with at most 1 in
    1,000 changed the run ends (0: never). Only inputs are looked at, never labels.
    """
    optimiser = torch.optim.AdamW(
        parameters or [p for p in module.parameters() if p.requires_grad],
        lr=learning_rate,
        weight_decay=weight_decay,
        betas=(0.9, 0.99),
    )
    averaged = Averaged(module, average) if average > 0 else None
    warm = max(1, min(50, steps // 20))
    every = max(1, steps // 20)
    before: Tensor | None = None
    steady = taken = 0
    module.train()
    with progress(label, steps, verbose) as tick:
        for step in range(steps):
            rate = min((step + 1) / warm, 0.5 * (1 + math.cos(math.pi * step / steps)))
            for group in optimiser.param_groups:
                group["lr"] = learning_rate * rate
            optimiser.zero_grad(set_to_none=True)
            loss = loss_of(step)
            loss.backward()
            optimiser.step()
            taken = step + 1
            if averaged is not None:
                averaged.update(module)
            tick()
            if patience and probe is not None and taken % every == 0 and taken >= steps // 4:
                now = _classes(module, averaged, probe)
                steady = steady + 1 if before is not None and (now != before).float().mean() <= 1e-3 else 0
                before = now
                if steady >= patience:
                    break
    if averaged is not None:
        module.load_state_dict(averaged.values)
    module.eval()
    return taken


@torch.no_grad()
def outputs(module: nn.Module, inputs: Tensor, *, batch: int = 512) -> Tensor:
    """Return the network's outputs for all inputs, in evaluation mode and in batches."""
    was = module.training
    module.eval()
    parts = [module(inputs[start : start + batch]) for start in range(0, len(inputs), batch)]
    module.train(was)
    return torch.cat(parts)


def batches(count: int, size: int, draw: torch.Generator) -> Iterator[Tensor]:
    """Endless batches of `size` positions below `count`: every position once before any comes again."""
    left = torch.empty(0, dtype=torch.long)
    while True:
        while len(left) < size:
            left = torch.cat([left, torch.randperm(count, generator=draw)])
        yield left[:size]
        left = left[size:]


def balanced(targets: Tensor, size: int, draw: torch.Generator) -> Iterator[Tensor]:
    """Endless batches of labelled positions in which every class comes equally often, however few its examples."""
    present = [torch.nonzero(targets == k).flatten() for k in torch.unique(targets)]
    streams = [batches(len(places), 1, draw) for places in present]
    order = batches(len(present), size, draw)
    while True:
        yield torch.cat([present[k][next(streams[k])] for k in next(order).tolist()])


@contextmanager
def progress(label: str, total: int, verbose: int) -> Generator[Callable[[], None]]:
    """Yield a progress bar on the terminal's error stream when `verbose`, nothing otherwise."""
    if not verbose:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def _classes(module: nn.Module, averaged: Averaged | None, probe: Tensor) -> Tensor:
    if averaged is None:
        return outputs(module, probe).argmax(dim=1)
    last = {name: value.detach().clone() for name, value in module.state_dict().items()}
    module.load_state_dict(averaged.values)
    classes = outputs(module, probe).argmax(dim=1)
    module.load_state_dict(last)
    return classes
