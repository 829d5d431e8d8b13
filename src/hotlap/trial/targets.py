"""A target that a metric has to reach, and the places its values are read from.

`loss` is the training loss that hotlap sees at each `backward`, as the mean of the last
`SMOOTHED_STEPS` steps. Any other metric comes from `hotlap.report(name, value)`, from a CSV or
JSONL file that the program writes, or from its output by a regular expression.
"""

import csv
import io
import json
import operator
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.core.errors import UsageError

SMOOTHED_STEPS = 20
LOSS = "loss"
NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_TARGET = re.compile(rf"\s*([\w./ -]+?)\s*(>=|<=|>|<)\s*{NUMBER}\s*(%?)\s*")
_OPERATORS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}


@dataclass(frozen=True)
class Target:
    """A metric and the value it has to reach, such as `val_acc>=0.97`."""

    metric: str
    sign: str
    value: float

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read `name>=value`, `name<value`, ...

        Raises:
            UsageError: the text is no such comparison.
        """
        match = _TARGET.fullmatch(text)
        if match is None:
            raise UsageError(
                f"{text!r} is no target", "a target is a comparison, such as 'val_acc>=0.97'"
            )
        name, sign, value, percent = match.groups()
        return cls(name, sign, float(value) / (100.0 if percent else 1.0))

    def reached_by(self, value: float) -> bool:
        """Whether a value of the metric reaches the target; nan never does."""
        return bool(_OPERATORS[self.sign](value, self.value))

    def better(self, one: float, other: float) -> float:
        """The one of two values that is nearer to the target or beyond it."""
        return max(one, other) if self.sign.startswith(">") else min(one, other)

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.value:g}"

    @property
    def pattern(self) -> re.Pattern[str]:
        """The name followed by a number, however the words of the name are joined."""
        words = re.split(r"[\s_./-]+", self.metric)
        name = r"[\s_./-]*".join(map(re.escape, words))
        return re.compile(rf"(?<![A-Za-z0-9]){name}['\"]?\s*[:=]?\s*{NUMBER}(\s*%)?", re.IGNORECASE)


@dataclass
class SmoothedLoss:
    """Means of the last steps' losses, once there are `SMOOTHED_STEPS` of them."""

    _last: deque[float] = field(default_factory=lambda: deque(maxlen=SMOOTHED_STEPS))

    def add(self, losses: Iterable[float]) -> Iterator[float]:
        """Take in one loss a step; give the smoothed value after each."""
        for loss in losses:
            self._last.append(loss)
            if len(self._last) == SMOOTHED_STEPS:
                yield sum(self._last) / SMOOTHED_STEPS


@dataclass
class OutputReader:
    """Values of a metric in the lines that a program has printed since it was last asked."""

    path: Path
    pattern: re.Pattern[str]
    _offset: int = 0
    _rest: str = ""

    def values(self) -> list[float]:
        """The new values, in the order of their lines."""
        lines, self._offset, self._rest = _new_lines(self.path, self._offset, self._rest)
        found = []
        for match in self.pattern.finditer("\n".join(lines)):
            percent = self.pattern.groups > 1 and match[2]
            found.append(float(match[1]) / (100.0 if percent else 1.0))
        return found


@dataclass
class FileReader:
    """Values of a metric in a CSV file with a header, or a file with one JSON object a line.

    `where` gives the path to read now: a trial may see the file in a layer of its own.
    """

    where: Callable[[], Path | None]
    metric: str
    _offset: int = 0
    _rest: str = ""
    _header: list[str] = field(default_factory=list)

    def values(self) -> list[float]:
        """The new values, in the order of the file."""
        path = self.where()
        if path is None:
            return []
        lines, self._offset, self._rest = _new_lines(path, self._offset, self._rest)
        return [value for line in lines if line.strip() for value in self._of(line)]

    def _of(self, line: str) -> Iterator[float]:
        if line.lstrip().startswith("{"):
            row = json.loads(line)
        else:
            cells = next(csv.reader(io.StringIO(line)))
            if not self._header:
                self._header = [cell.strip() for cell in cells]
                return
            row = dict(zip(self._header, cells, strict=False))
        try:
            yield float(row[self.metric])
        except (KeyError, TypeError, ValueError):
            return


def _new_lines(path: Path, offset: int, rest: str) -> tuple[list[str], int, str]:
    """Whole lines since `offset`; a line that is being written waits in `rest`."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
    except OSError:
        return [], offset, rest
    text = (rest + data.decode(errors="replace")).replace("\r", "\n")
    *lines, rest = text.split("\n")
    return lines, offset + len(data), rest
