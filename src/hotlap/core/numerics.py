"""How much a run may differ once a technique is on."""

from enum import StrEnum


class Numerics(StrEnum):
    """The numerics classes, in order of how much a run may differ.

    exact: losses bitwise equal. rounding: same formula, other rounding order. precision: fewer
    bits. training: the optimisation itself changes, so it is never switched on unasked.
    """

    EXACT = "exact"
    ROUNDING = "rounding"
    PRECISION = "precision"
    TRAINING = "training"


UNASKED = frozenset({Numerics.EXACT, Numerics.ROUNDING, Numerics.PRECISION})

PERTURBED_AT = 8
"""The step after which an A/A test nudges one side's parameters by one unit in the last place."""
