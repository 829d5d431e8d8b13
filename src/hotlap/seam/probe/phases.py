"""The phases of a step: what the program is at between two marks of the timeline.

A timeline marks *codes* as boundaries are crossed. At the end of a step, once it is known what an
open stretch led to, `fold` turns them into the phases that are reported.
"""

from collections.abc import Sequence

REST, DATA, LOADER, COPY, FORWARD, LOSS, BACKWARD, OPTIMIZER, SAVING, EVALUATION, CHECKING = range(
    11
)
"""Codes. LOSS: after a training forward, before what follows. EVALUATION: an evaluation forward.
CHECKING: after one."""

OPEN = tuple(code in (REST, LOSS, CHECKING) for code in range(11))
"""Codes in which a boundary may begin; in the others it is part of what is going on."""

PHASES = (
    "data",
    "loader",
    "copy",
    "forward",
    "backward",
    "optimizer",
    "evaluation",
    "evaluation_data",
    "saving",
    "rest",
)
_SLOT = {name: index for index, name in enumerate(PHASES)}
_NAMES = {
    REST: "rest",
    DATA: "data",
    LOADER: "loader",
    COPY: "copy",
    FORWARD: "forward",
    LOSS: "forward",
    BACKWARD: "backward",
    OPTIMIZER: "optimizer",
    SAVING: "saving",
    EVALUATION: "forward",
    CHECKING: "rest",
}
PLAIN = tuple(_SLOT[_NAMES[code]] for code in range(11))
EVALUATED = tuple(
    _SLOT["evaluation_data" if code in (DATA, LOADER) else "evaluation"] for code in range(11)
)
_REST = _SLOT["rest"]

Range = tuple[int, int]


def fold(
    codes: Sequence[int], stamps: Sequence[float], evaluations: Sequence[Range]
) -> list[float]:
    """Time in each phase; `stamps` has one entry more than `codes`.

    Stretches whose index lies in one of `evaluations` are evaluation. A LOSS stretch belongs to
    the forward pass only when a backward pass follows; to the rest otherwise.
    """
    row = [0.0] * len(PHASES)
    slots = [PLAIN[code] for code in codes]
    _settle_losses(codes, slots)
    for begin, end in evaluations:
        slots[begin:end] = [EVALUATED[code] for code in codes[begin:end]]
    for index, slot in enumerate(slots):
        row[slot] += stamps[index + 1] - stamps[index]
    return row


def _settle_losses(codes: Sequence[int], slots: list[int]) -> None:
    led_to_backward = False
    for index in range(len(codes) - 1, -1, -1):
        code = codes[index]
        if code == LOSS:
            if not led_to_backward:
                slots[index] = _REST
        elif code == BACKWARD:
            led_to_backward = True
        elif code in (DATA, LOADER, EVALUATION):
            led_to_backward = False


def name_of(code: int, *, evaluating: bool) -> str:
    """The phase a sample belongs to that was taken while `code` was the latest mark."""
    slot = EVALUATED[code] if evaluating or code in (EVALUATION, CHECKING) else PLAIN[code]
    return PHASES[slot]
