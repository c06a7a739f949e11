"""Random changes of a batch that keep its label: warping and noise for images, swapped values for tables.

Inputs are standardized (mean 0, deviation 1 per channel or column) tensors; each example is changed by its own draw.
All randomness comes from the generator that is passed.
"""

import math
from typing import Any

from ostrakon.networks.backend import F, Tensor, torch


def weak(x: Tensor, draw: torch.Generator, *, flip: bool = False) -> Tensor:
    """Images: shifted by up to an eighth of the side (and mirrored, with `flip`). Tables: as they are."""
    if x.ndim == 2:
        return x
    x = affine(x, draw, degrees=0, scale=0, shear=0, shift=1 / 8)
    return mirror(x, draw) if flip else x


def moderate(x: Tensor, draw: torch.Generator, *, flip: bool = False) -> Tensor:
    """Images: small rotations, scales, shears, shifts and elastic warps. Tables: noise of a twentieth."""
    if x.ndim == 2:
        return x + 0.05 * torch.randn(x.shape, generator=draw, device=x.device)
    x = affine(x, draw, degrees=12, scale=0.12, shear=0.12, shift=1 / 14, elastic=1 / 28)
    return mirror(x, draw) if flip else x


def strong(x: Tensor, draw: torch.Generator, *, flip: bool = False) -> Tensor:
    """Images: larger warps, changed contrast, noise and a blanked square. Tables: a fifth of the values swapped.

    A table's swapped values come from other rows of the batch, so every column keeps its own distribution.
    """
    if x.ndim == 2:
        return swap_values(x, draw, share=0.2)
    x = affine(x, draw, degrees=25, scale=0.25, shear=0.25, shift=1 / 8, elastic=1 / 20)
    if flip:
        x = mirror(x, draw)
    return blank(contrast(x, draw, 0.3, noise=0.1), draw, share=0.3)


def affine(
    x: Tensor, draw: torch.Generator, *, degrees: float, scale: float, shear: float, shift: float, elastic: float = 0.0
) -> Tensor:
    """Images turned, scaled, sheared, shifted (a share of the side) and, with `elastic`, bent; edges are repeated.

    degrees, scale, shear, shift, elastic: the largest change each; a draw is uniform up to it.
    """
    n, _, height, width = x.shape
    angle, turn_x, turn_y, lean, dx, dy = _uniform((6, n), draw, x)
    angle = angle * math.radians(degrees)
    size_x, size_y = torch.exp(turn_x * scale), torch.exp(turn_y * scale)
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = torch.stack(
        [
            torch.stack([size_x * cos, size_x * (lean * shear * cos - sin), 2 * shift * dx], dim=1),
            torch.stack([size_y * sin, size_y * (lean * shear * sin + cos), 2 * shift * dy], dim=1),
        ],
        dim=1,
    )
    grid = F.affine_grid(rows, [n, 1, height, width], align_corners=False)
    if elastic > 0:
        coarse = _uniform((n, 2, 5, 5), draw, x) * (4 * elastic)
        bend = F.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=True)
        grid = grid + bend.permute(0, 2, 3, 1)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def crop(x: Tensor, draw: torch.Generator, *, smallest: float) -> Tensor:
    """Return a random part of each image, its side at least `smallest` of the whole, stretched to the full size."""
    n, _, height, width = x.shape
    along, offset_x, offset_y = _uniform((3, n), draw, x)
    side = smallest + (1 - smallest) * (along + 1) / 2
    zero = torch.zeros_like(side)
    rows = torch.stack(
        [
            torch.stack([side, zero, (1 - side) * offset_x], dim=1),
            torch.stack([zero, side, (1 - side) * offset_y], dim=1),
        ],
        dim=1,
    )
    grid = F.affine_grid(rows, [n, 1, height, width], align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


def mirror(x: Tensor, draw: torch.Generator) -> Tensor:
    """Half of the images mirrored left to right."""
    chosen = _uniform((len(x), 1, 1, 1), draw, x) > 0
    return torch.where(chosen, x.flip(-1), x)


def contrast(x: Tensor, draw: torch.Generator, most: float, *, noise: float = 0.0) -> Tensor:
    """Contrast and brightness changed by up to `most`, colours each on their own, plus white noise."""
    n, channels = x.shape[:2]
    factor, offset = _uniform((2, n, channels, 1, 1), draw, x) * most
    x = x * (1 + factor) + offset
    if noise > 0:
        x = x + noise * torch.randn(x.shape, generator=draw, device=x.device)
    return x


def blank(x: Tensor, draw: torch.Generator, *, share: float) -> Tensor:
    """Return a square of up to `share` of the side set to the mean (0) in each image, at a random place."""
    n, _, height, width = x.shape
    row, column, size = (_uniform((3, n, 1, 1), draw, x) + 1) / 2
    half = size * share / 2
    rows = torch.arange(height, device=x.device).view(1, -1, 1) / height
    columns = torch.arange(width, device=x.device).view(1, 1, -1) / width
    inside = ((rows - row).abs() < half) & ((columns - column).abs() < half)
    return x.masked_fill(inside.unsqueeze(1), 0.0)


def swap_values(x: Tensor, draw: torch.Generator, *, share: float) -> Tensor:
    """Return rows of a table with `share` of their values taken from other rows of the batch."""
    other = torch.randint(len(x), x.shape, generator=draw, device=x.device)
    chosen = torch.rand(x.shape, generator=draw, device=x.device) < share
    return torch.where(chosen, x.gather(0, other), x)


def _uniform(shape: tuple[int, ...], draw: torch.Generator, like: Tensor) -> Any:
    return torch.rand(shape, generator=draw, device=like.device) * 2 - 1
