"""A target that a metric has to reach, and the places its values are read from.

`loss` is the training loss that hotlap sees in each step, as the mean of the last
`SMOOTHED_STEPS`. Any other metric comes from `hotlap.report(name, value)`, from a CSV or
JSONL file that the program writes, or from its output by a regular expression.
"""

import csv
import io
import json
import operator
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.core.protocol import Losses

SMOOTHED_STEPS = 20
LOSS = "loss"
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TARGET = re.compile(rf"\s*([\w./ -]+?)\s*(>=|<=|>|<)\s*({NUMBER})\s*(%?)\s*")
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
        value = rf"({NUMBER}|[-+]?(?:nan|inf)\b)"
        return re.compile(rf"(?<![A-Za-z0-9]){name}['\"]?\s*[:=]?\s*{value}", re.IGNORECASE)


@dataclass
class SmoothedLoss:
    """Means of the last losses, once there are `SMOOTHED_STEPS` of them."""

    _last: deque[float] = field(default_factory=lambda: deque(maxlen=SMOOTHED_STEPS))

    def add(self, losses: Losses) -> Iterator[float]:
        """Take in one loss a step, or none; from the first value on give one after each."""
        for loss in losses:
            if loss is not None:
                self._last.append(loss)
            if len(self._last) == SMOOTHED_STEPS:
                yield sum(self._last) / SMOOTHED_STEPS


KNOWN_BYTES = 1024
"""A file that does not hold so many bytes as they were read from it has been begun anew."""


@dataclass
class NewLines:
    """The lines of a file that were written since it was last asked for them.

    `anew`: those that were given last begin the file.
    """

    anew: bool = False
    _offset: int = 0
    _before: bytes = b""
    _rest: str = ""

    def read(self, path: Path, *, ended: bool) -> list[str]:
        """Whole lines; one that is being written waits, unless its writer has `ended`."""
        try:
            data = self._new_bytes(path)
        except OSError:
            return []
        text = (self._rest + data.decode(errors="replace")).replace("\r", "\n")
        *lines, self._rest = text.split("\n")
        if ended:
            lines, self._rest = [*lines, self._rest], ""
        return lines

    def _new_bytes(self, path: Path) -> bytes:
        with path.open("rb") as file:
            file.seek(self._offset - len(self._before))
            if file.read(len(self._before)) != self._before:
                self._offset, self._before, self._rest = file.seek(0), b"", ""
            self.anew = not self._offset
            data = file.read()
        self._offset += len(data)
        self._before = (self._before + data)[-KNOWN_BYTES:]
        return data


@dataclass
class OutputReader:
    """Values of a metric in the lines that a program has printed since it was last asked.

    `unread` is text that the pattern found last, and that is no number.
    """

    path: Path
    pattern: re.Pattern[str]
    unread: str = ""
    _lines: NewLines = field(default_factory=NewLines)

    def values(self, *, ended: bool = False) -> list[float]:
        """The new values, in the order of their lines; `ended`: no more will come."""
        found = []
        for line in self._lines.read(self.path, ended=ended):
            for match in self.pattern.finditer(line):
                percent = "%" if line[match.end(1) :].lstrip().startswith("%") else ""
                value = _number((match[1] or "") + percent)
                if value is None:
                    self.unread = match[0]
                else:
                    found.append(value)
        return found


def _number(text: str) -> float | None:
    """The number that is written there, 97.1 % as 0.971; None where there is none."""
    digits = text.rstrip("% ")
    try:
        return float(digits) / (100.0 if "%" in text[len(digits) :] else 1.0)
    except ValueError:
        return None


@dataclass
class FileReader:
    """Values of a metric in a CSV file with a header, or a file with one JSON object a line.

    `where` gives the path to read now: a trial may see the file in a layer of its own. What an
    `earlier` program has left in the file is not given.
    """

    where: Callable[[], Path | None]
    metric: str
    earlier: Path | None = None
    _lines: NewLines = field(default_factory=NewLines)
    _header: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Pass over what is in the file already."""
        if self.earlier is not None:
            self._values(self.earlier, ended=True)

    def values(self, *, ended: bool = False) -> list[float]:
        """The new values, in the order of the file; `ended`: no more will come."""
        path = self.where()
        return [] if path is None else self._values(path, ended=ended)

    def _values(self, path: Path, *, ended: bool) -> list[float]:
        lines = self._lines.read(path, ended=ended)
        if self._lines.anew:
            self._header = []
        return [value for line in lines if line.strip() for value in self._of(line)]

    def _of(self, line: str) -> Iterator[float]:
        row: dict[str, object]
        try:
            if line.lstrip().startswith("{"):
                row = json.loads(line)
            else:
                cells = next(csv.reader(io.StringIO(line)))
                if not self._header:
                    self._header = [cell.strip() for cell in cells]
                    return
                row = dict(zip(self._header, cells, strict=False))
        except ValueError:  # a line that is no JSON
            return
        value = _number(str(row.get(self.metric, "")))
        if value is not None:
            yield value
