"""Small wordings used everywhere."""

import math
import os
import shlex
import textwrap
from collections.abc import Mapping, Sequence

from rich.text import Text

from hotlap.core.amounts import several
from hotlap.trial.stats import Estimate, Verdict

LEAST_OF_TWO_PLACES = 0.095
"""Ratio below which two decimal places are less than two significant figures."""


def named(technique: str, values: Mapping[str, object]) -> str:
    """A technique with its values: `loader_workers(2)`."""
    inside = ", ".join(str(value) for value in values.values())
    return f"{technique}({inside})" if inside else technique


def background(load: float) -> str:
    """How many cores other programs used."""
    return f"background load: {load:.1f} of {os.cpu_count()} cores"


def ratio(value: float) -> str:
    """A speed ratio, as `1.27x`, or `0.0042x` where two decimal places would show one figure."""
    if not math.isfinite(value):
        return "-"
    return f"{value:.2g}x" if 0 < value < LEAST_OF_TWO_PLACES else f"{value:.2f}x"


def by_sample(samples: Sequence[float] | None, names: tuple[str, str] = ("A", "B")) -> str:
    """What speeds are by where a step of each takes other numbers of samples; else empty."""
    if not samples:
        return ""
    (a, b), (one, other) = samples, names
    return f"a step of {one} takes {a:g} samples and one of {other} {b:g}: speeds are by sample"


def interval(estimate: Estimate) -> str:
    """The confidence interval, as `[1.21, 1.33]`; `-` while it is too wide to say anything."""
    if not (estimate.low >= 1 / WIDEST and estimate.high <= WIDEST):
        return "-"
    return f"[{estimate.low:.2f}, {estimate.high:.2f}]"


TOO_FEW = "too few pairs"


def speed(estimate: Estimate, unknown: str = TOO_FEW) -> str:
    """Ratio and interval, `1.27x [1.21, 1.33]`; no ratio is printed whose interval is unknown."""
    known = interval(estimate)
    return unknown if known == "-" else f"{ratio(estimate.ratio)} {known}"


def raced_so_far(estimate: Estimate) -> str:
    """What a race that goes on has shown, and by how many pairs."""
    return f"{speed(estimate, 'not known yet')}, {several(estimate.pairs, 'pair')}"


def more_memory(other: float) -> str:
    """What peak memory became where the other's is so many times as much: `12% more`, `same`."""
    change = round(100 * (1 / other - 1)) if other > 0 else 0
    return f"{abs(change)}% {'more' if change > 0 else 'less'}" if change else "same"


def roughly(seconds: float) -> str:
    """An estimate of a time span, rounded up: `about 30 s`, `about 4 min`."""
    if seconds <= 90:
        return f"about {5 * math.ceil(seconds / 5)} s"
    return f"about {math.ceil(seconds / 60)} min"


WIDEST = 100.0
"""An interval with an end beyond this ratio, or its inverse, comes from two or three pairs."""

COUNT_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def count(number: float, what: str = "") -> str:
    """A large number, `3.2 GFLOP`."""
    unit, name = next((pair for pair in COUNT_UNITS if number >= pair[0]), (1, ""))
    return f"{number / unit:.3g} {name}{what}".strip()


def shortened(text: str, width: int) -> Text:
    """One line that fits into the terminal; what is left out is left out word by word."""
    room = max(40, width - 1)
    found = Text(text)
    if found.cell_len > room:
        found.truncate(room - 2)
        words, blank, _ = found.plain.rpartition(" ")
        whole = text[len(found.plain) : len(found.plain) + 1].isspace()
        kept = words if blank and words.strip() and not whole else found.plain
        found = Text(f"{kept.rstrip()} …")
    return found


def pasted(command: str, width: int, indent: str) -> str:
    """A command to paste: broken, where it has to be, as a shell takes it.

    It is broken between words. A word that is too long for a line stays whole: what goes on at the
    first column looks like a word of its own. A cell magic stays on one line, where IPython looks
    for all of it.
    """
    if command.startswith("%%"):
        return f"{indent}{command}"
    lines = [indent]
    for word in _shell_words(command):
        if len(lines[-1]) + len(word) > width - 3 and lines[-1].strip():
            lines[-1] += " \\"
            lines.append(f"{indent}  ")
        blank = " " if lines[-1].strip() else ""
        lines[-1] += f"{blank}{word}"
    return "\n".join(lines)


def _shell_words(command: str) -> list[str]:
    """The words with their quotes; the whole where the quotes do not match."""
    try:
        return shlex.split(command, posix=False)
    except ValueError:
        return [command]


def hanging(text: str, width: int, first: str = "", then: str = "") -> str:
    """The text in lines of at most `width` columns, each begun by `first` or `then`."""
    return textwrap.fill(
        text,
        max(40, width - 1),
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def verdict(found: Verdict, same_within: float = 0.05) -> str:
    """The verdict of a race of A and B, in words."""
    if found is Verdict.FASTER:
        return "B is faster"
    if found is Verdict.SLOWER:
        return "B is slower"
    if found is Verdict.SAME:
        return f"the same within {same_within:.0%}"
    return "inconclusive: the difference is too small, or the machine too busy, for the time raced"
