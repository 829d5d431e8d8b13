"""A range test's curve, in characters or as a picture."""

import math
from importlib import import_module
from pathlib import Path

from hotlap.optim.sweep import Sweep

DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # of a braille cell, by column and row
BLANK = 0x2800


def drawn(sweep: Sweep, width: int = 60, height: int = 12) -> list[str]:
    """The smoothed curve in braille dots, loss upwards, the logarithm of the rate to the right.

    Losses above the first one's height are cut off, so that the fall can be seen. The axis below
    has a `^` where the suggestion is. An empty list if there are fewer than two finite losses.
    """
    curve = sweep.smoothed()
    if len(curve) < 2:
        return []
    low, high = min(curve), _ceiling(sweep, curve)
    cells = [[0] * width for _ in range(height)]
    columns = 2 * width - 1
    heights = []
    for x in range(columns + 1):
        loss = _between(curve, x / columns * (len(curve) - 1))
        heights.append(round((high - loss) / (high - low or 1.0) * (4 * height - 1)))
        _stroke(cells, x, heights[-2:])
    labels = [f"{high:9.4g} ", *[" " * 10] * (height - 2), f"{low:9.4g} "]
    rows = ["".join(chr(BLANK + dots) for dots in row) for row in cells]
    lines = [label + "│" + row for label, row in zip(labels, rows, strict=True)]
    return [
        *lines,
        " " * 10 + "└" + _axis(sweep, width, len(curve)),
        _scale(sweep, width, len(curve)),
    ]


def write_png(sweep: Sweep, path: Path | str) -> None:
    """Write the losses, the smoothed curve, its readings and the suggestion as a PNG.

    Raises:
        RuntimeError: matplotlib is not installed.
    """
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(7, 4), dpi=120)
    except ModuleNotFoundError:
        raise RuntimeError(
            "drawing a PNG takes matplotlib, which is not installed; `pip install matplotlib`"
        ) from None
    axes = figure.subplots()
    curve = sweep.smoothed()
    rates = sweep.rates[: len(curve)]
    axes.semilogx(rates, sweep.losses[: len(curve)], ".", color="0.75", label="loss")
    axes.semilogx(rates, curve, color="C0", label="smoothed")
    for name, rate in sweep.readings().items():
        if rate is not None:
            axes.axvline(rate, linestyle="--", linewidth=1, color="C3", alpha=0.3)
            axes.annotate(f"{name} {rate:.2g}", (rate, 0.97), xycoords=axes.get_xaxis_transform(),
                          rotation=90, va="top", ha="right", fontsize=8)  # fmt: skip
    first = sweep.suggestion()
    if first is not None:
        axes.axvline(first, color="C3", linewidth=1.5, label=f"try first: {first:.2g}")
    if len(curve) > 1:
        low, high = min(curve), _ceiling(sweep, curve)
        margin = 0.08 * (high - low or 1.0)
        axes.set_ylim(low - margin, high + 2 * margin)
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    axes.legend(loc="lower left", frameon=False)
    figure.tight_layout()
    figure.savefig(path, format="png")


def _ceiling(sweep: Sweep, curve: list[float]) -> float:
    first = sweep.first if math.isfinite(sweep.first) else curve[0]
    early = max(first, curve[0])
    return early if early > min(curve) else max(curve)


def _between(curve: list[float], at: float) -> float:
    below = min(int(at), len(curve) - 2)
    return curve[below] + (at - below) * (curve[below + 1] - curve[below])


def _stroke(cells: list[list[int]], x: int, heights: list[int]) -> None:
    """Dots from the last column's height to this one's, so that steep parts hold together."""
    before, here = heights[0], heights[-1]
    nearer = before + (here > before) - (here < before)
    for y in range(max(0, min(nearer, here)), max(nearer, here) + 1):
        _dot(cells, x, y)


def _dot(cells: list[list[int]], x: int, y: int) -> None:
    row = min(y // 4, len(cells) - 1)
    cells[row][x // 2] |= DOTS[x % 2][y % 4]


def _axis(sweep: Sweep, width: int, count: int) -> str:
    line = ["─"] * width
    rate = sweep.suggestion()
    if rate is not None:
        line[_column(sweep, rate, width, count)] = "^"
    return "".join(line)


def _column(sweep: Sweep, rate: float, width: int, count: int) -> int:
    low, high = math.log(sweep.rates[0]), math.log(sweep.rates[count - 1])
    share = (math.log(rate) - low) / (high - low or 1.0)
    return min(width - 1, max(0, round(share * (width - 1))))


def _scale(sweep: Sweep, width: int, count: int) -> str:
    """The powers of ten below the axis."""
    line = [" "] * (width + 14)
    first = math.ceil(math.log10(sweep.rates[0]) - 1e-9)
    last = math.floor(math.log10(sweep.rates[count - 1]) + 1e-9)
    for power in range(first, last + 1):
        at = 11 + _column(sweep, 10.0**power, width, count)
        label = f"1e{power}"
        if all(character == " " for character in line[at - 1 : at + len(label)]):
            line[at : at + len(label)] = label
    return "".join(line).rstrip()
