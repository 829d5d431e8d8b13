"""Whether a packed copy of the training's image files pays, from what the probe measured."""

import ast
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.core.protocol import DatasetReport, PackPlan, ProfilePayload
from hotlap.profile.layout import FOLDERS, Layout, layout_of
from hotlap.profile.model import Finding, Remedy
from hotlap.profile.sources import parsed, shown
from hotlap.profile.waiting import waiting, with_remedies
from hotlap.trial.stats import Estimate, PairedTest

WORTH = 1.1
"""Packing is work of a person's and room on a disk: less than 10 % does not pay for it."""
PAGE = (
    'with labels and random transforms of your own: `hotlap pack`, page "Pack a dataset" of the '
    "documentation"
)
"""Where to read on, where no recipe can be printed that trains as the script does."""
LESS_TRANSFORMS = "less what your own random transforms take"
EXPLAIN = "hotlap explain packed_dataset"
"""The command that shows how a store is read."""
ENCODED = "JPEGs are encoded anew, so that pixels change a little (--quality, 92 by default)"


@dataclass(frozen=True)
class Proposal:
    """A packed copy that pays.

    `reading`: how much faster one core reads the packed samples, as measured by turns. `expected`
    and `least`: the step's ratio that follows from `reading` and its lower bound; `most`: the ratio
    if data cost nothing. `place` is the dataset's `file:line`, `command` packs, `code` reads,
    `notes` are what to mind; without `code` nothing trains as the script does in a few lines, and
    `PAGE` tells how. `simpler`: the copy was read without some of the dataset's random
    transforms, so that `expected` is the most.
    """

    place: str
    reading: Estimate
    samples: int
    seconds: tuple[float, float]
    expected: float
    least: float
    most: float
    bytes: int
    command: str
    code: tuple[str, ...]
    notes: tuple[str, ...] = ()
    simpler: bool = False

    @property
    def evidence(self) -> str:
        """What was measured, in one sentence."""
        now, packed = (f"{seconds * 1e3:.3g} ms" for seconds in self.seconds)
        if not self.code:
            return f"{now} a sample now, {packed} from a packed copy ({self.samples} files)"
        e = self.reading
        high = "" if e.high == float("inf") else f", {e.high:.3g}"
        return (
            f"{self.samples} of your files, read by turns on one core from RAM: {now} a sample, "
            f"{packed} from a packed copy, {e.ratio:.3g}x [{e.low:.3g}{high}]"
        )

    @property
    def says(self) -> str:
        """What it would bring to the step."""
        if self.simpler:
            return (
                f"the step would be at most about {self.expected:.2f}x as fast, {LESS_TRANSFORMS}"
            )
        return f"the step would be about {self.expected:.2f}x as fast (at least {self.least:.2f}x)"

    @property
    def further(self) -> str:
        """Where to read on, if no lines of code do."""
        return "" if self.code else f"; {PAGE}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What to type, and the two lines of code to change, or the command that explains them."""
        return (self.command, *(self.code or (EXPLAIN,)))

    def remedy(self) -> Remedy:
        """The proposal as a remedy of the wait for data."""
        return Remedy(
            "packed_dataset",
            f"{self.says}: {self.evidence}; {self.bytes / 1e6:,.0f} MB in all{self.further}",
            ("data",),
            self.place,
            self.most,
            1.0 - 1.0 / self.expected,
            lines=self.lines,
            notes=self.notes,
        )


def proposal(payload: ProfilePayload, folder: Path) -> Proposal | None:
    """Work out what packing would bring to the step; None where it was not seen to pay."""
    dataset = payload.dataset
    packed = dataset.packed if dataset else None
    if dataset is None or packed is None or not packed.pairs:
        return None
    reading = _reading(packed.pairs)
    wait, workers = waiting(payload), dataset.workers
    least = step_ratio(wait, reading.low, workers) if reading.low > 0 else 0.0
    if least < WORTH:
        return None
    found = layout_of(dataset, folder)
    whole = found.same and packed.scaled and not (dataset.draws and packed.simpler)
    middle = sorted(packed.pairs)[len(packed.pairs) // 2]
    return Proposal(
        place=_place(payload, dataset, folder),
        reading=reading,
        samples=packed.samples,
        seconds=(middle[0], middle[0] / reading.ratio),
        expected=step_ratio(wait, reading.ratio, workers),
        least=least,
        most=1.0 / max(1e-3, 1.0 - wait),
        bytes=int(packed.bytes * dataset.length),
        command=_command(found, packed),
        code=_code(dataset, packed) if whole else (),
        notes=(*found.notes, *_notes(packed)),
        simpler=packed.simpler,
    )


def with_packing(found: Sequence[Finding], payload: ProfilePayload, folder: Path) -> list[Finding]:
    """Add the proposal, if there is one, to what is found about the wait for data."""
    made = proposal(payload, folder)
    if made is None:
        return list(found)
    return with_remedies(found, [made.remedy()], payload)


def step_ratio(share: float, reading: float, workers: int) -> float:
    """The step's ratio when samples are read `reading` times as fast.

    `share` is the part of a step that waits for data. Without workers it is all of the reading.
    With some the whole step is what reading takes, so that it shrinks until nothing waits.
    """
    if reading <= 0:
        return 0.0
    rest = 1.0 - share
    left = max(rest, 1.0 / reading) if workers else rest + share / reading
    return 1.0 / max(1e-3, left)


def _reading(pairs: list[tuple[float, float]]) -> Estimate:
    test = PairedTest()
    for own, packed in pairs:
        test.add(own, packed)
    return test.estimate()


def _place(payload: ProfilePayload, dataset: DatasetReport, folder: Path) -> str:
    """The user's own `__getitem__`, else the line that makes the dataset or its loader."""
    places = payload.places
    own = "" if dataset.bases[0] in FOLDERS else dataset.place
    made = own or made_at(payload.sampled, dataset.kind, folder)
    return made or places.get("loader", "") or places.get("dataset", "")


def _command(found: Layout, packed: PackPlan) -> str:
    side = packed.resize
    size = f"{side[0]}x{side[1]}" if isinstance(side, list) else str(side)
    parts = ["hotlap", "pack", found.source, found.target]
    return shlex.join([*parts, "--profile", packed.profile, "--resize", size])


def _code(dataset: DatasetReport, packed: PackPlan) -> tuple[str, str]:
    """The import, and the line that stands where the DataLoader stood."""
    steps = ", ".join(
        f"transforms.{name}({_arguments(name, args)})" for name, args in packed.transforms
    )
    transform = f", transform=[{steps}]" if steps else ""
    shuffle = ", shuffle=True" if dataset.shuffle else ""
    names = "Loader, transforms" if steps else "Loader"
    return (
        f"from hotlap.data import {names}",
        f'loader = Loader("packed", batch_size={dataset.batch_size}{shuffle}{transform})',
    )


def _arguments(name: str, values: Sequence[object]) -> str:
    """The arguments as code; a square is one number, but for Resize, where that is a short side."""
    sides = _numbers(values[0]) if len(values) == 1 else []
    if len(set(sides)) == 1 and name != "Resize":
        return repr(sides[0])
    return ", ".join(repr(tuple(v) if isinstance(v, list) else v) for v in values)


def _numbers(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _notes(packed: PackPlan) -> tuple[str, ...]:
    """What to mind when packing so."""
    notes = [ENCODED] if packed.profile.startswith("jpeg") else []
    if packed.profile == "raw" and not packed.sure and isinstance(packed.resize, list):
        notes.append(
            "rows are resized to both sides; where your transform keeps the shape and cuts, give "
            f"--resize {packed.resize[0]} (short side, middle cut out)"
        )
    return tuple(notes)


def made_at(paths: Iterable[str], kind: str, folder: Path) -> str:
    """`file:line` of the first call of `kind` in the files; empty if there is none."""
    for path in map(Path, sorted(paths)):
        if line := _line(path, kind):
            return f"{shown(path, folder)}:{line}"
    return ""


def _line(path: Path, kind: str) -> int:
    lines = [
        node.lineno
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and _is(node, kind)
    ]
    return min(lines, default=0)


def _is(call: ast.Call, kind: str) -> bool:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == kind
    return False
