"""The four guidelines of ShuffleNetV2 (Ma et al., 2018, section 2) on the layers of a model.

Memory-access cost (MAC) is counted in tensor elements. With c1 channels in, c2 out, P output
positions (batch x height x width), g groups and a k-element kernel, a convolution or linear layer
has B = P k c1 c2 / g multiply-adds and MAC = P (c1 + c2) + k c1 c2 / g.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

TOP = 3
WORTH = 0.02
BRANCHES = 3

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Offence:
    """A layer that breaks a guideline. `share`: of the model's memory-access cost, avoidable."""

    guideline: str
    layer: str
    place: str
    says: str
    share: float


def unequal_channels(row: Row) -> float:
    """G1: elements moved beyond those of equal widths, P (sqrt(c1) - sqrt(c2))^2.

    For a given B, P (c1 + c2) >= 2 P sqrt(c1 c2), with equality for c1 = c2 (the paper's eq. 2).
    """
    shape = row["shape"]
    if not shape or shape["groups"] > 1:
        return 0.0
    return float(shape["positions"] * (sqrt(shape["in"]) - sqrt(shape["out"])) ** 2)


def many_groups(row: Row) -> float:
    """G2: elements moved beyond those of one group, P c2 (g - 1) / g.

    MAC = P c1 + B g / c1 + B / P for fixed input and B: it grows with g (the paper's eq. 3).
    """
    shape = row["shape"]
    if not shape:
        return 0.0
    groups = shape["groups"]
    return float(shape["positions"] * shape["out"] * (groups - 1) / groups)


def fragments(row: Row) -> float:
    """G3: what layers that share an input read again, where three or more do."""
    shape, sharing = row["shape"], row["shares_input"]
    if not shape or sharing < BRANCHES:
        return 0.0
    return float(shape["positions"] * shape["in"] * (1 - 1 / sharing))


def element_wise(row: Row) -> float:
    """G4: elements moved by element-wise operators (additions, activations, scalings)."""
    part = row["pointwise"] / row["traffic"] if row["traffic"] else 0.0
    return float(row["elements"] * part)


GUIDELINES: tuple[tuple[str, Callable[[Row], float], Callable[[Row], str]], ...] = (
    ("G1 equal channel widths", unequal_channels,
     lambda row: f"{row['shape']['in']} channels in, {row['shape']['out']} out"),
    ("G2 few groups", many_groups, lambda row: f"{row['shape']['groups']} groups"),
    ("G3 little fragmentation", fragments,
     lambda row: f"{row['shares_input']} parallel layers read one input"),
    ("G4 few element-wise operations", element_wise,
     lambda row: f"{row['kind']}: element-wise operators"),
)  # fmt: skip


def offences(rows: Iterable[Row]) -> list[Offence]:
    """The layers that break each guideline most; those with at least 2 % of all that is moved."""
    rows = list(rows)
    total = sum(row["elements"] for row in rows) or 1
    found = []
    for name, cost, says in GUIDELINES:
        worst = sorted(rows, key=cost, reverse=True)[:TOP]
        found += [
            Offence(name, row["layer"], row["place"], says(row), cost(row) / total)
            for row in worst
            if cost(row) >= WORTH * total
        ]
    return found
