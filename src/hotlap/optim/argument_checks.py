"""Refusing hyperparameters that cannot be meant, in one line that says which and why."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Rule = tuple[Callable[[Any], bool], str]


def _number(value: float) -> float:
    return float(value) if not isinstance(value, bool) else math.nan


def _not_negative(value: float) -> bool:
    return 0.0 <= _number(value) < math.inf


def _fraction(value: float) -> bool:
    return 0.0 <= _number(value) < 1.0


def _fractions(value: Sequence[float]) -> bool:
    return len(value) == 2 and all(map(_fraction, value))


def _bounds(value: Sequence[float] | None) -> bool:
    return value is None or (len(value) == 2 and 0.0 <= value[0] < value[1])


def _positive_or_none(value: float | None) -> bool:
    return value is None or 0.0 < _number(value) < math.inf


def _flag(value: object) -> bool:
    return isinstance(value, bool)


RULES: dict[str, Rule] = {
    "lr": (_not_negative, "a finite number of at least 0"),
    "eps": (_not_negative, "a finite number of at least 0"),
    "weight_decay": (_not_negative, "a finite number of at least 0"),
    "trust_coefficient": (_not_negative, "a finite number of at least 0"),
    "momentum": (_fraction, "at least 0 and below 1"),
    "betas": (_fractions, "two numbers, each at least 0 and below 1"),
    "norm_bounds": (_bounds, "None, or (low, high) with 0 <= low < high"),
    "max_grad_norm": (_positive_or_none, "None, or a number above 0"),
    **dict.fromkeys(
        ("exclude_1d", "layerwise", "maximize", "bias_correction", "decoupled", "master_weights"),
        (_flag, "True or False"),
    ),
}


def check(optimizer: str, options: Mapping[str, object]) -> None:
    """Check one parameter group's options.

    Raises:
        ValueError: an option is out of its range; the message names the optimizer, the option, the
            value, and what it must be.
    """
    for name, (allowed, words) in RULES.items():
        if name in options and not _holds(allowed, options[name]):
            raise ValueError(f"{optimizer}: {name} is {options[name]!r}; it must be {words}")


def _holds(allowed: Callable[[object], bool], value: object) -> bool:
    try:
        return allowed(value)
    except (TypeError, ValueError):
        return False
