"""The phases of a step: what the program is at between two marks of the timeline.

A timeline marks *codes* as boundaries are crossed. At the end of a step, once it is known what an
open stretch led to, `fold` turns them into the phases that are reported.
"""

from collections.abc import Sequence

from hotlap.core.facts import STEP_PHASES

CODES = range(12)
(
    OTHER,
    DATA,
    LOADER,
    COPY,
    FORWARD,
    LOSS,
    BACKWARD,
    OPTIMIZER,
    SAVING,
    EVALUATION,
    CHECKING,
    RESTING,
) = CODES
"""Codes. LOSS: after a training forward, before what follows. EVALUATION: an evaluation forward.
CHECKING: after one. RESTING: the probe looks at nothing."""

OPEN = tuple(code in (OTHER, LOSS, CHECKING) for code in CODES)
"""Codes in which a boundary may begin; in the others it is part of what is going on."""

CLOSURE = tuple(code in (OTHER, LOSS, CHECKING, OPTIMIZER) for code in CODES)
"""Codes in which a forward or backward pass may begin: an optimizer may run them as a closure."""

LOSSES = tuple(code in (OTHER, LOSS, OPTIMIZER) for code in CODES)
"""Codes in which a loss module is part of the training."""

STEPPING = tuple(code not in (OPTIMIZER, RESTING) for code in CODES)
"""Codes in which an optimizer's step begins a phase of its own."""

_SLOT = {name: index for index, name in enumerate(STEP_PHASES)}
_NAMES = {
    OTHER: "other",
    DATA: "data",
    LOADER: "loader",
    COPY: "copy",
    FORWARD: "forward",
    LOSS: "forward",
    BACKWARD: "backward",
    OPTIMIZER: "optimizer",
    SAVING: "saving",
    EVALUATION: "forward",
    CHECKING: "other",
    RESTING: "other",
}
PLAIN = tuple(_SLOT[_NAMES[code]] for code in CODES)
EVALUATED = tuple(
    _SLOT["evaluation_data" if code in (DATA, LOADER) else "evaluation"] for code in CODES
)
_OTHER = _SLOT["other"]
_LEADS = tuple({BACKWARD: True, DATA: False, LOADER: False}.get(code) for code in CODES)

Range = tuple[int, int]
Marks = tuple[list[int], list[int], list[Range]]
"""The codes of a step, their times and its end's, and which marks are evaluation."""


def from_first_phase(marks: Marks) -> Marks:
    """The marks from the first boundary on: without what the program does in front of it."""
    codes, stamps, evaluations = marks
    begin = next((at for at, code in enumerate(codes) if code != OTHER), 0)
    shifted = [(max(0, first - begin), max(0, end - begin)) for first, end in evaluations]
    return codes[begin:], stamps[begin:], shifted


def fold(
    codes: Sequence[int], stamps: Sequence[float], evaluations: Sequence[Range]
) -> list[float]:
    """Time in each phase, in the unit of `stamps`, which has one entry more than `codes`.

    Stretches whose index lies in one of `evaluations` are evaluation. A LOSS stretch belongs to
    the forward pass only when a backward pass follows; to the rest otherwise.
    """
    row: list[float] = [0] * len(STEP_PHASES)
    backward_follows: bool | None = False
    after = stamps[-1]
    for code, at in zip(reversed(codes), reversed(stamps[:-1]), strict=True):
        slot = PLAIN[code]
        if code == LOSS and not backward_follows:
            slot = _OTHER
        elif _LEADS[code] is not None:
            backward_follows = _LEADS[code]
        row[slot] += after - at
        after = at
    for begin, end in evaluations:
        _move(row, codes[begin:end], stamps[begin : end + 1])
    return row


def _move(row: list[float], codes: Sequence[int], stamps: Sequence[float]) -> None:
    """Count a stretch as evaluation instead of what `fold` took it for.

    A stretch holds no backward pass, so that its LOSS was taken for rest.
    """
    for index, code in enumerate(codes):
        time = stamps[index + 1] - stamps[index]
        row[_OTHER if code == LOSS else PLAIN[code]] -= time
        row[EVALUATED[code]] += time


def phase_at(code: int, *, evaluating: bool) -> str:
    """The phase that `fold` counts a stretch as; `evaluating`: it is part of an evaluation."""
    return STEP_PHASES[(EVALUATED if evaluating else PLAIN)[code]]


def name_of(code: int, *, evaluating: bool) -> str:
    """The phase that it looks like while `code` is the latest mark of a step that goes on."""
    return phase_at(code, evaluating=evaluating or code in (EVALUATION, CHECKING))
