"""The report of a tune as one HTML file without outside parts."""

import datetime
import math
from pathlib import Path

from jinja2 import Environment, PackageLoader, select_autoescape

from hotlap import __version__
from hotlap.core.recipe import Recipe
from hotlap.core.registry import technique
from hotlap.report.tune_text import headline
from hotlap.report.words import duration, interval, named, ratio
from hotlap.trial.command import shown
from hotlap.trial.stats import Estimate
from hotlap.tune.result import TuneResult

WIDTH, MARGIN = 260, 8


def write(path: Path, result: TuneResult, recipe: Recipe) -> None:
    """Write the report."""
    path.write_text(render(result, recipe), encoding="utf-8")


def render(result: TuneResult, recipe: Recipe) -> str:
    """The report's HTML."""
    jinja = Environment(
        loader=PackageLoader("hotlap.report"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters |= {"ratio": ratio, "interval": interval, "duration": duration}
    raced = result.raced
    scale = Scale([row.estimate for row in raced if row.estimate])
    return jinja.get_template("tune.html").render(
        result=result,
        headline=headline(result),
        recipe=recipe,
        command=shown(result.command),
        raced=raced,
        others=[row for row in result.outcomes if row not in raced],
        scale=scale,
        named=named,
        title=lambda name: technique(name).title,
        version=__version__,
        when=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
    )


class Scale:
    """A logarithmic axis that all intervals are drawn on."""

    def __init__(self, estimates: list[Estimate]) -> None:
        ends = [e.low for e in estimates if e.low > 0] + [
            e.high for e in estimates if math.isfinite(e.high)
        ]
        self.low = min([0.8, *ends])
        self.high = max([1.25, *ends])

    def x(self, value: float) -> float:
        """Pixels from the left."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)

    @property
    def width(self) -> int:
        """Pixels of the whole axis."""
        return WIDTH
