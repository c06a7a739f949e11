"""Many equal networks run as one: their weights stacked, their layers grouped, or the whole mapped by `vmap`.

`weights` maps each name of the network's state to a tensor (networks, ...). Images go through as
(batch, networks * channels, height, width), so that every convolution is one grouped convolution whose channels lie
side by side in memory; flat features go through as (networks, batch, features), so that every linear layer is one
batched product. The arithmetic of a network does not depend on the values of the others.
"""

from collections.abc import Callable
from typing import Any

from ostrakon.networks.architectures import Residual
from ostrakon.networks.backend import F, Tensor, nn, torch

Forward = Callable[[dict[str, Tensor], Tensor, bool], Tensor]

_ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.ELU, nn.Tanh, nn.Sigmoid, nn.Identity)
_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)


def can_group(network: nn.Module) -> bool:
    """Return whether `grouped` knows every layer of the network."""
    if type(network) is nn.Sequential:
        return all(can_group(layer) for layer in network)
    if type(network) is nn.Conv2d:
        return network.groups == 1 and network.padding_mode == "zeros"
    if type(network) is nn.Flatten:
        return network.start_dim == 1 and network.end_dim == -1
    if type(network) is nn.MaxPool2d:
        return network.dilation == 1 and not network.ceil_mode
    return type(network) in (nn.Linear, nn.Dropout, nn.GroupNorm, Residual, *_ELEMENTWISE, *_POOLS)


def can_map(network: nn.Module) -> bool:
    """Return whether `mapped` can run the network: none of its layers keeps running statistics."""
    return not any(hasattr(layer, "running_mean") for layer in network.modules())


def grouped(network: nn.Module, *, draw: torch.Generator | None = None) -> Forward:
    """Return a function (weights, inputs, shared) -> logits (networks, batch, classes), by grouped layers.

    inputs: (networks, batch, ...), or (batch, ...) with `shared`, where all networks see the same batch: the first
    layer is then one product over it. draw: the source of dropout; None switches dropout off.
    """

    def forward(weights: dict[str, Tensor], inputs: Tensor, shared: bool) -> Tensor:
        count = len(next(iter(weights.values())))
        state = _State(inputs, count=count, shared=shared, draw=draw)
        _apply(network, "", weights, state)
        state.unshare()
        return state.x

    return forward


def mapped(network: nn.Module, *, training: bool = False) -> Forward:
    """Return a function (weights, inputs, shared) -> logits (networks, batch, classes), by `torch.vmap`.

    Any network without running statistics; dropout, while `training`, draws from PyTorch's global generator.
    """

    def one(weights: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return torch.func.functional_call(network, weights, (inputs,))

    def forward(weights: dict[str, Tensor], inputs: Tensor, shared: bool) -> Tensor:
        network.train(training)
        return torch.vmap(one, in_dims=(0, None if shared else 0), randomness="different")(weights, inputs)

    return forward


def fold_scale(network: nn.Module, weights: dict[str, Tensor], mean: Tensor | None, scale: Tensor) -> bool:
    """Move each network's scaling of its inputs, (x - mean) / scale, into its first layer's weights.

    mean, scale: (networks, columns or channels); mean None: 0 for all. Afterwards all networks read the same raw
    inputs. Returns False, and changes nothing, if the scaling does not fit into the first active layer: a convolution
    with a mean (the zeros at its borders are not shifted), a linear layer with a mean but no bias, or another kind of
    layer. This depends on the architecture alone, never on values: one network does not change how others are run.
    """
    first = _first_product(network, "")
    if first is None:
        return False
    name, layer = first
    if mean is not None and (isinstance(layer, nn.Conv2d) or layer.bias is None):
        return False
    if isinstance(layer, nn.Conv2d):
        weights[f"{name}weight"] = weights[f"{name}weight"] / scale[:, None, :, None, None]
        return True
    repeats = layer.in_features // scale.shape[1]
    weights[f"{name}weight"] = weights[f"{name}weight"] / scale.repeat_interleave(repeats, dim=1)[:, None, :]
    if mean is not None:
        shift = torch.einsum("gof,gf->go", weights[f"{name}weight"], mean.repeat_interleave(repeats, dim=1))
        weights[f"{name}bias"] = weights[f"{name}bias"] - shift
    return True


def _first_product(layer: nn.Module, prefix: str) -> tuple[str, Any] | None:
    if type(layer) in (nn.Conv2d, nn.Linear):
        return prefix, layer
    if type(layer) is nn.Sequential:
        for name, child in layer.named_children():
            if type(child) not in (nn.Flatten, nn.Identity):
                return _first_product(child, f"{prefix}{name}.")
    return None


class _State:
    """Values in grouped layers, networks side by side; while `shared`, one batch for all networks."""

    def __init__(self, inputs: Tensor, *, count: int, shared: bool, draw: torch.Generator | None) -> None:
        self.count, self.shared, self.draw = count, shared, draw
        if shared:
            self.image = inputs.ndim == 4
            self.x = inputs.contiguous(memory_format=torch.channels_last) if self.image else inputs
            return
        self.image = inputs.ndim == 5
        if self.image:
            _, batch, _, height, width = inputs.shape
            # Channels last: the channels of all networks lie side by side, one vector for pooling and activation.
            laid = inputs.permute(1, 3, 4, 0, 2).reshape(batch, height, width, -1)
            self.x = laid.permute(0, 3, 1, 2)
        else:
            self.x = inputs

    def unshare(self) -> None:
        if not self.shared:
            return
        self.shared = False
        if self.image:
            self.x = self.x.repeat(1, self.count, 1, 1).contiguous(memory_format=torch.channels_last)
        else:
            self.x = self.x.unsqueeze(0).expand(self.count, -1, -1)


def _apply(layer: nn.Module, prefix: str, weights: dict[str, Tensor], state: _State) -> None:
    if isinstance(layer, nn.Sequential):
        for name, child in layer.named_children():
            _apply(child, f"{prefix}{name}.", weights, state)
    elif isinstance(layer, nn.Conv2d):
        _convolve(layer, prefix, weights, state)
    elif isinstance(layer, nn.Linear):
        _multiply(prefix, weights, state)
    elif isinstance(layer, nn.Flatten):
        _flatten(state)
    elif isinstance(layer, nn.MaxPool2d):
        state.x = _max_pool(layer, state.x)
    elif isinstance(layer, nn.GroupNorm):
        state.unshare()
        weight, bias = weights.get(f"{prefix}weight"), weights.get(f"{prefix}bias")
        state.x = F.group_norm(
            state.x,
            layer.num_groups * state.count,
            None if weight is None else weight.flatten(),
            None if bias is None else bias.flatten(),
            layer.eps,
        )
    elif isinstance(layer, nn.Dropout):
        if state.draw is not None and layer.p > 0:
            state.unshare()
            kept = torch.rand(state.x.shape, generator=state.draw, device=state.x.device) >= layer.p
            state.x = state.x * kept / (1 - layer.p)
    elif isinstance(layer, Residual):
        _residual(layer, prefix, weights, state)
    else:
        state.x = layer(state.x)


def _convolve(layer: nn.Conv2d, prefix: str, weights: dict[str, Tensor], state: _State) -> None:
    weight, bias = weights[f"{prefix}weight"], weights.get(f"{prefix}bias")
    state.x = F.conv2d(
        state.x,
        weight.flatten(0, 1).contiguous(memory_format=torch.channels_last),
        None if bias is None else bias.flatten(),
        stride=layer.stride,
        padding=layer.padding,
        dilation=layer.dilation,
        groups=1 if state.shared else state.count,
    )
    state.shared = False


def _multiply(prefix: str, weights: dict[str, Tensor], state: _State) -> None:
    weight, bias = weights[f"{prefix}weight"], weights.get(f"{prefix}bias")
    if state.shared:
        product = (state.x @ weight.flatten(0, 1).T).view(len(state.x), state.count, -1).transpose(0, 1)
        state.x = product if bias is None else product + bias.unsqueeze(1)
        state.shared = False
    elif bias is None:
        state.x = torch.bmm(state.x, weight.transpose(1, 2))
    else:
        state.x = torch.baddbmm(bias.unsqueeze(1), state.x, weight.transpose(1, 2))


def _flatten(state: _State) -> None:
    if not state.image:
        return
    if state.shared:
        state.x = state.x.flatten(1)
    else:
        state.x = state.x.reshape(len(state.x), state.count, -1).transpose(0, 1)
    state.image = False


def _max_pool(layer: nn.MaxPool2d, x: Tensor) -> Tensor:
    two = all(value in (2, (2, 2)) for value in (layer.kernel_size, layer.stride)) and layer.padding in (0, (0, 0))
    if torch.is_grad_enabled() or not two or x.shape[2] % 2 or x.shape[3] % 2 or x.device.type != "cpu":
        return F.max_pool2d(x, layer.kernel_size, layer.stride, layer.padding)
    # On a CPU the larger of neighbours, channels last, is several times faster than pooling (no positions are kept).
    laid = x.permute(0, 2, 3, 1)
    rows, height, width, channels = laid.shape
    pairs = laid.reshape(rows, height, width // 2, 2, channels)
    across = torch.maximum(pairs[:, :, :, 0], pairs[:, :, :, 1]).view(rows, height // 2, 2, width // 2, channels)
    return torch.maximum(across[:, :, 0], across[:, :, 1]).permute(0, 3, 1, 2)


def _residual(layer: Residual, prefix: str, weights: dict[str, Tensor], state: _State) -> None:
    state.unshare()
    before = state.x
    for name in ("first", "first_norm"):
        _apply(getattr(layer, name), f"{prefix}{name}.", weights, state)
    state.x = F.relu(state.x)
    for name in ("second", "second_norm"):
        _apply(getattr(layer, name), f"{prefix}{name}.", weights, state)
    after, state.x = state.x, before
    _apply(layer.shortcut, f"{prefix}shortcut.", weights, state)
    state.x = F.relu(after + state.x)
