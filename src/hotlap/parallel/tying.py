"""Parameters that are one in several places of a model, and what would part them."""

from collections.abc import Iterator

import torch
from torch import nn

Places = list[tuple[nn.Module, str]]


def tied(part: nn.Module) -> list[Places]:
    """The places of each parameter that has several."""
    places: dict[nn.Parameter, Places] = {}
    for module in part.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places.setdefault(parameter, []).append((module, name))
    return [found for found in places.values() if len(found) > 1]


def tie(part: nn.Module, groups: list[Places]) -> None:
    """Make those one again that `tied` has found.

    Raises:
        ValueError: they are spread in two ways by now.
    """
    for places in groups:
        first = places[0][0]._parameters[places[0][1]]
        for module, name in places[1:]:
            other = module._parameters[name]
            if _layout(first) != _layout(other):
                raise ValueError(
                    f"{_name(part, places[0])} and {_name(part, (module, name))} are one parameter,"
                    " and the plan spreads them in two ways"
                )
            module._parameters[name] = first


def _layout(parameter: torch.Tensor | None) -> object:
    return getattr(parameter, "placements", None)


def _name(part: nn.Module, place: tuple[nn.Module, str]) -> str:
    names: Iterator[str] = (name for name, module in part.named_modules() if module is place[0])
    return f"{next(names, '')}.{place[1]}"
