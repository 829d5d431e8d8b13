"""A profile joined with lint: what each spot of the source costs in a step.

A hint becomes a finding when its lines cost at least 2 % of a step, or when the profile shows its
technique's symptom at that very place as a problem; else it is dropped.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hotlap.core.amounts import duration
from hotlap.core.protocol import Document
from hotlap.profile.model import NOT_MEASURED, Sampled
from hotlap.profile.sources import as_profiled, digest
from hotlap.source.config import Config
from hotlap.source.lint import Spot, lint

WORTH = 0.02
LEAST_SAMPLES = 3
SMALL = 25e-6
"""Mean seconds of an operator up to which fewer, larger ones are faster (benchmarks/heads.py)."""
FORWARD = ("forward", "loss")
ESTIMATE = "of which the backward part is estimated"


@dataclass(frozen=True)
class Costed:
    """A spot and what it costs: `seconds` of the `step`, 0 where too little was seen.

    `by_phase` are the parts of `seconds`. `behind`: seconds of the backward pass among them, which
    were `timed` by line, or else estimated in proportion to the forward pass. `confirmed`: the
    profile shows its technique's symptom at this place, as a problem. `finding`: the share of a
    step that this took, wherever its lines are. `stale`: its lines changed since the profile was
    taken, so nothing is known. `part`: the measured share of its lines' time that `seconds` is.
    """

    spot: Spot
    seconds: float = 0.0
    step: float = 0.0
    by_phase: tuple[tuple[str, float], ...] = ()
    confirmed: bool = False
    finding: float = 0.0
    stale: bool = False
    behind: float = 0.0
    timed: bool = False
    part: float = 0.0

    @property
    def estimated(self) -> bool:
        """Whether the backward pass's part of its cost is an estimate."""
        return self.behind > 0 and not self.timed

    @property
    def vague(self) -> bool:
        """Whether it costs a part of `seconds` that was not measured."""
        return bool(self.spot.part_of) and not self.part

    @property
    def share(self) -> float:
        """The part of a step."""
        return self.seconds / self.step if self.step else 0.0

    @property
    def worth(self) -> bool:
        """Whether its lines alone make it a finding."""
        return self.share >= WORTH

    @property
    def cost(self) -> str:
        """The cost in words, `1.9 ms of 14.2 ms a step`; empty where it is not known.

        What costs nothing on its own lines costs what the finding does that confirms it.
        """
        seconds = self.seconds or self.finding * self.step
        if not seconds:
            return NOT_MEASURED if self.confirmed else ""
        part = "part of " if self.vague else "at most " if self.part else ""
        words = f"{part}{duration(seconds)} of {duration(self.step)} a step"
        return f"{words}, {ESTIMATE}" if self.estimated else words


def joined(paths: Iterable[Path], document: Mapping[str, object], config: Config) -> list[Costed]:
    """The spots at and below the paths with their cost: findings, and hints that are confirmed.

    `document` is what `hotlap profile` wrote. With `config.hints` the other hints stay as well. A
    profile knows lines, so that a pattern stands once for each.

    Raises:
        UsageError: a path does not exist, or the document is not a profile's.
    """
    past = Past(document)
    spots = lint(paths, replace(config, hints=True))
    on_lines: dict[tuple[Path, int, str], list[Spot]] = {}
    for spot in spots:
        on_lines.setdefault((spot.path, spot.line, spot.id), []).append(spot)
    found = [past.cost(*same) for _, same in sorted(on_lines.items())]
    return [c for c in found if config.hints or not c.spot.hint or c.worth or c.confirmed]


class Past:
    """What a profile's document knows about lines of source; `met` are the files that it met.

    Raises:
        UsageError: the document is not a profile's.
    """

    def __init__(self, document: Document) -> None:
        try:
            means = {p["name"]: float(p["mean"]) for p in document["phases"]}
            usual = {p["name"]: p.get("usual") for p in document["phases"]}
            self._phases = {n: m if usual[n] is None else usual[n] for n, m in means.items()}
            outliers = sum(means.values()) - sum(self._phases.values())
            self._step = float(document["step"]) - outliers
            self._files: Document = document["files"]
            self._by_line = bool(document.get("backward_by_line"))
            self._facts: Document = document["facts"]
            self._places = _places(document["findings"], Path(document["folder"]))
            self.met = _met(document)
            self._shares = {
                remedy["id"]: float(finding["share"])
                for finding in document["findings"]
                for remedy in finding["remedies"]
            }
        except (KeyError, TypeError, ValueError):
            raise _no_profile() from None
        self._kept: dict[Path, dict[int, int] | None] = {}

    def cost(self, spot: Spot, *same: Spot) -> Costed:
        """What a spot costs, with the `same` pattern's others on its line."""
        path = spot.path.resolve()
        profiled = [one for each in (spot, *same) if (one := self._as_profiled(path, each))]
        if len(profiled) <= len(same):
            return Costed(spot, stale=True)
        return replace(self._cost(path, *profiled), spot=spot)

    def _as_profiled(self, path: Path, spot: Spot) -> Spot | None:
        """The spot with the lines that the profile saw it on; None where they have changed."""
        if path not in self._kept:
            known = self._files.get(str(path))
            same = known is None or digest(path.read_bytes()) == known["digest"]
            digests = (known or {}).get("line_digests", [])
            self._kept[path] = None if same else as_profiled(path, digests)
        kept = self._kept[path]
        if kept is None:
            return spot
        first, last = spot.since or spot.line, max(spot.line, spot.end_line)
        moved = kept.get(first, 0) - first
        if any(kept.get(line) != line + moved for line in range(first, last + 1)):
            return None
        since = spot.since + moved if spot.since else 0
        end = spot.end_line + moved if spot.end_line else 0
        return replace(spot, line=spot.line + moved, end_line=end, since=since)

    def _cost(self, path: Path, spot: Spot, *same: Spot) -> Costed:
        if spot.elsewhere:
            share = 0.0 if path not in self.met else self._shares.get(spot.technique, 0.0)
            return Costed(spot, share * self._step, self._step, confirmed=share > 0)
        confirmed, share = self._confirmed(path, spot)
        if spot.small_operators and not self._small(path, spot):
            return Costed(spot, step=self._step, confirmed=confirmed, finding=share)
        by_phase, samples = self._on(path, (spot, *same))
        if samples < LEAST_SAMPLES or not any(by_phase.values()):
            return Costed(spot, step=self._step, confirmed=confirmed, finding=share)
        behind = self._behind(path, spot, by_phase) if spot.differentiated else 0.0
        if behind:
            by_phase["backward"] = by_phase.get("backward", 0.0) + behind
        part = spot.part or float(self._facts.get(spot.part_of, 0.0))
        scale = min(part or 1.0, _most(spot, sum(by_phase.values())))
        parts = tuple((phase, seconds * scale) for phase, seconds in by_phase.items())
        seconds = min(sum(seconds for _, seconds in parts), self._step)
        return Costed(spot, seconds, self._step, parts, confirmed, behind=behind,
                      timed=self._by_line, part=part)  # fmt: skip

    def _behind(self, path: Path, spot: Spot, by_phase: Mapping[str, float]) -> float:
        """The seconds of the backward pass that belong to a spot's lines of the forward pass.

        Where they are not known by line, they are taken to be to the whole backward pass as the
        lines are to the whole forward pass.
        """
        if self._by_line:
            parts = (of[2] for of in self._operators(path, spot))
            return min(1.0, sum(parts)) * self._phases.get("backward", 0.0)
        forward = self._phases.get("forward", 0.0)
        mine = sum(by_phase.get(name, 0.0) for name in FORWARD)
        return min(1.0, mine / forward) * self._phases.get("backward", 0.0) if forward else 0.0

    def _on(self, path: Path, spots: tuple[Spot, ...]) -> tuple[dict[str, float], int]:
        """Seconds a step by phase on the lines of the spots, and the samples they stand on."""
        known = self._files.get(str(path), {"lines": {}})
        seconds: dict[str, float] = {}
        samples = 0
        for line, phases in known["lines"].items():
            if int(line) not in spots[0].priced:
                continue
            for phase, (spent, count, *calls) in phases.items():
                if _concerns(phase, spots[0].phases):
                    here = int(line) == spots[0].line  # columns are those of this line
                    part = _part(spots, calls[0] if calls and here else ())
                    seconds[phase] = seconds.get(phase, 0.0) + part * spent
                    samples += round(part * count)
        return seconds, samples

    def _small(self, path: Path, spot: Spot) -> bool:
        """Whether the operators that run from a spot's lines are known to be small."""
        found = self._operators(path, spot)
        number = sum(of[0] for of in found)
        return bool(number) and sum(of[1] for of in found) < number * SMALL

    def _operators(self, path: Path, spot: Spot) -> list[tuple[int, float, float]]:
        """What the operators take that run from a spot's lines: see `Touched`."""
        known = self._files.get(str(path), {}).get("operators", {})
        return [tuple(of) for line, of in known.items() if int(line) in spot.priced]

    def _confirmed(self, path: Path, spot: Spot) -> tuple[bool, float]:
        """Whether a problem proposes the spot's technique there, and its share of a step."""
        shares = [
            share
            for at, share in self._places.get(spot.technique, ())
            if not at or (at[0] == path and covers(spot, at[1]))
        ]
        return bool(shares), max(shares, default=0.0)


def forward_part(phases: Mapping[str, Sampled]) -> tuple[float, int]:
    """Of what was sampled on a line, seconds a step and samples of the forward pass."""
    found = [phases[phase] for phase in FORWARD if phase in phases]
    return sum(of[0] for of in found), sum(of[1] for of in found)


def _most(spot: Spot, seconds: float) -> float:
    """The part of the seconds on a spot's lines that it costs at most."""
    return min(1.0, spot.seconds / seconds) if spot.seconds else 1.0


def _part(spots: tuple[Spot, ...], calls: Iterable[tuple[int, int, float]]) -> float:
    """The part of a line's samples that may be the spots': all but those in other calls.

    `calls`: first and end column (from 0) of each expression that ran, and its share. A call that
    encloses a read (`print` around `.item()`) counts for it: it is what the value is read for.
    """
    read = spots[0].technique == "host_sync"
    ranges = [(s.column - 1, s.end_column - 1) for s in spots if s.line == s.end_line]
    if len(ranges) < len(spots) or any(begin >= end for begin, end in ranges):
        return 1.0
    apart = (
        share
        for begin, end, share in calls
        if all(_apart(first, last, begin, end, read=read) for first, last in ranges)
    )
    return max(0.0, 1.0 - sum(apart))


def _apart(first: int, last: int, begin: int, end: int, *, read: bool) -> bool:
    """Whether an expression (`begin` to `end`) is no part of a spot (`first` to `last`)."""
    around = begin <= first and last <= end and (begin, end) != (first, last)
    return end <= first or begin >= last or (around and not read)


def covers(spot: Spot, line: int) -> bool:
    """Whether a line is one of the spot's."""
    return spot.line <= line <= max(spot.line, spot.end_line)


def split(place: str, folder: Path) -> tuple[Path, int] | None:
    """`file:line` as an absolute path and a number; None for anything else."""
    file, _, line = place.rpartition(":")
    return ((folder / file).resolve(), int(line)) if file and line.isdigit() else None


def _met(document: Document) -> frozenset[Path]:
    """The files that were sampled, or that make the loader, the model and so on."""
    folder = Path(document["folder"])
    named = (split(place, folder) for place in document["places"].values())
    return frozenset({*map(Path, document["files"]), *(at[0] for at in named if at)})


def _places(
    findings: Iterable[Document], folder: Path
) -> dict[str, list[tuple[tuple[Path, int] | None, float]]]:
    """Where each remedy of the profile's own problems points, and the problem's share of a step."""
    found: dict[str, list[tuple[tuple[Path, int] | None, float]]] = {}
    for finding in findings:
        if not finding["problem"]:  # an option: nobody knows what it costs
            continue
        for remedy in finding["remedies"]:
            for place in (remedy["place"], *remedy["also"]):
                at = split(place, folder)
                found.setdefault(remedy["id"], []).append((at, float(finding["share"])))
    return found


def _concerns(phase: str, phases: tuple[str, ...]) -> bool:
    """Whether a sampled phase is one of a pattern's; what follows a forward pass is rest, too."""
    if phase == "loss":
        return not phases or "other" in phases or "forward" in phases
    return not phases or phase in phases


def _no_profile() -> Exception:
    from hotlap.core.errors import UsageError

    return UsageError("the document is not a profile of this version", "run `hotlap profile` again")
