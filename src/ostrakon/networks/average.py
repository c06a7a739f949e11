"""Equal networks as one that answers with the mean of their logits."""

from collections.abc import Callable, Sequence
from typing import Any

from ostrakon.networks.backend import Tensor, nn, torch

# Layers that treat every channel on its own and have no weights.
_BY_CHANNEL = (
    *(nn.LeakyReLU, nn.ReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Identity),
    *(nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Flatten),
)


def averaged(networks: Sequence[Any]) -> Any:
    """Return one module that answers with the mean of the logits of `networks`, up to a constant: a softmax ends it.

    networks: modules from inputs to probabilities, such as `TorchClassifier.exported_network` gives, trained on the
    same rows: the first one standardizes the inputs. Sequences of equal plain layers become one plain
    `torch.nn.Sequential` with their layers side by side; others become a module that runs all of them.

    >>> two = [nn.Sequential(nn.BatchNorm1d(3, affine=False), nn.Linear(3, 2), nn.Softmax(dim=1)) for _ in range(2)]
    >>> averaged(two)[1].weight.allclose((two[0][1].weight + two[1][1].weight) / 2)
    True
    """
    if len(networks) == 1:
        return networks[0]
    if _fit_side_by_side(networks):
        return _side_by_side([list(network) for network in networks])
    return MeanOfLogits(networks)


class MeanOfLogits(nn.Module):
    """The geometric mean of the probabilities of several networks."""

    def __init__(self, networks: Sequence[Any]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.eval()

    def forward(self, x: Any) -> Any:
        """Return the probabilities, (rows, classes)."""
        logits = torch.stack([network(x).clamp_min(1e-30).log() for network in self.networks])
        return torch.softmax(logits.mean(dim=0), dim=1)


def _fit_side_by_side(networks: Sequence[Any]) -> bool:
    """Return whether all are a standardization, plain layers, a linear one and a softmax, of equal kinds."""
    kinds = [[type(layer) for layer in network] if isinstance(network, nn.Sequential) else [] for network in networks]
    one = kinds[0]
    plain = {nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, *_BY_CHANNEL}
    return (
        len(one) > 2
        and all(kind == one for kind in kinds)
        and one[0] in (nn.BatchNorm1d, nn.BatchNorm2d)
        and set(one[1:-1]) <= plain
        # Networks share their inputs up to the first weights: a norm before these would need separate inputs.
        and not {nn.BatchNorm1d, nn.BatchNorm2d} & set(one[1 : _first_weights(one)])
        and one[-2:] == [nn.Linear, nn.Softmax]
        and all(layer.padding_mode == "zeros" for layer in networks[0] if isinstance(layer, nn.Conv2d))
    )


def _first_weights(kinds: list[type]) -> int:
    return next(at for at, kind in enumerate(kinds) if kind in (nn.Linear, nn.Conv2d))


def _side_by_side(layers: Sequence[list[Any]]) -> Any:
    joined, wide = [layers[0][0]], False
    for alike in zip(*(body[1:-2] for body in layers), strict=True):
        one = alike[0]
        if isinstance(one, nn.Linear):
            joined.append(_wide_linear(alike, wide))
        elif isinstance(one, nn.Conv2d):
            joined.append(_wide_convolution(alike, wide))
        elif isinstance(one, nn.BatchNorm1d | nn.BatchNorm2d):
            joined.append(_wide_norm(alike))
        else:
            joined.append(one)
        wide = wide or isinstance(one, nn.Linear | nn.Conv2d)
    joined.append(_mean_linear([body[-2] for body in layers], wide))
    return nn.Sequential(*joined, layers[0][-1]).eval()


def _stacked(layers: Sequence[Any], name: str) -> Any:
    return torch.cat([getattr(layer, name).detach() for layer in layers])


def _wide_convolution(layers: Sequence[Any], wide: bool) -> Any:
    one, count = layers[0], len(layers)
    convolution = nn.Conv2d(
        one.in_channels * (count if wide else 1),
        one.out_channels * count,
        one.kernel_size,
        stride=one.stride,
        padding=one.padding,
        dilation=one.dilation,
        groups=one.groups * (count if wide else 1),
        bias=one.bias is not None,
    )
    return _filled(
        convolution, weight=_stacked(layers, "weight"), bias=one.bias is not None and _stacked(layers, "bias")
    )


def _wide_norm(layers: Sequence[Any]) -> Any:
    one = layers[0]
    wide = type(one)(one.num_features * len(layers), eps=one.eps, affine=one.affine)
    names = ["running_mean", "running_var", *(["weight", "bias"] if one.affine else [])]
    return _filled(wide, **{name: _stacked(layers, name) for name in names})


def _wide_linear(layers: Sequence[Any], wide: bool) -> Any:
    weights = [layer.weight.detach() for layer in layers]
    return _linear(torch.block_diag(*weights) if wide else torch.cat(weights), layers, torch.cat)


def _mean_linear(layers: Sequence[Any], wide: bool) -> Any:
    weights = [layer.weight.detach() for layer in layers]
    weight = torch.cat(weights, dim=1) / len(layers) if wide else _mean(weights)
    return _linear(weight, layers, _mean)


def _mean(tensors: list[Tensor]) -> Tensor:
    return torch.stack(tensors).mean(dim=0)


def _linear(weight: Tensor, layers: Sequence[Any], join: Callable[[list[Tensor]], Tensor]) -> Any:
    has_bias = layers[0].bias is not None
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=has_bias)
    return _filled(linear, weight=weight, bias=has_bias and join([layer.bias.detach() for layer in layers]))


def _filled(layer: Any, **values: Any) -> Any:
    with torch.no_grad():
        for name, value in values.items():
            if value is not False:
                getattr(layer, name).copy_(value)
    return layer
