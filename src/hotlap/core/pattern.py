"""A pattern: what source shows where a technique is missing, or where its opposite was written."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """What the linter looks for.

    `id` names the pattern found, never its remedy. `says` is the reason in one line, `remedy` what
    to write instead, `ignore` when it may be left as it is. `check` (`module:function`) yields the
    syntax nodes that show it. `hint`: whether it costs anything depends on the workload; it is
    shown when asked for, or once a profile confirms it. `phases` are the phases of the step in
    which a profile sees the cost of the found line (empty: all of them). `differentiated`: the
    lines compute what autograd follows, so that their time in the forward pass comes again, in
    proportion, in the backward pass. `absent`: the pattern is that nothing was written, so that no
    line's time is its cost. `elsewhere`: the line is the cause of a cost that a profile measures
    apart from lines; it is that of the technique's own finding. `fault`: it is wrong in any case,
    even where its technique is a choice for a race to judge. `part_of`: it costs a part of its
    lines' time; the name of the profile's fact that is this share, where it was measured.
    `small_operators`: it costs nothing where the operators of its lines are large.
    """

    id: str
    says: str
    remedy: str
    check: str
    ignore: str = ""
    hint: bool = False
    phases: tuple[str, ...] = ()
    differentiated: bool = False
    absent: bool = False
    elsewhere: bool = False
    fault: bool = False
    part_of: str = ""
    small_operators: bool = False
