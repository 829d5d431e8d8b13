"""Of several ranks: what each waits for the others, which one is late, and in which phase.

Steps of data parallel ranks take equally long, because all wait in the same collectives: a rank
that waits less than another works longer. So what a rank waits more than the one that waits least
is spent on waiting for slower ranks, and what even that one waits is communication (or ranks that
are late by turns). Waits are known from DDP's log, from its broadcasts of buffers and, on a CPU,
from samples of collectives that the script calls itself. Where they are not known of every rank,
nothing is said.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hotlap.core.amounts import duration
from hotlap.core.protocol import ProfilePayload, RankTimes, SampledLine
from hotlap.profile.findings import COLLECTIVE, PARTS
from hotlap.profile.model import TITLES, Finding, Rank, Remedy, bound, headline

LEAST_LATE = 0.05
"""Share of a step by which the last rank must be later than the next one."""
CONTENDED = 0.25
"""Part of its threads' wait for a core by which a rank must be later still: which of two equal
ranks waits longer for one is chance. Under load, of 9 profiles of equal ranks none was that late,
of 9 with shards whose work differs by half all were (benchmarks.ranks)."""
MOST_OF_IT = 0.5
"""Part of what makes a rank late that one phase must take to be called its cause."""
CERTAIN = 3.0
"""Standard errors that a difference must exceed."""
FEWEST = 10
"""Steps of each rank without which nothing is said."""
JOINED = {"loader": "data", "evaluation_data": "evaluation"}
"""Phases that are added up with another one."""
COMPUTE, BOTH_PASSES = ("forward", "backward"), "compute"
CAUSES = TITLES | {name: PARTS[name] for name in ("other", BOTH_PASSES)}
STRAGGLER = "straggler"
EQUAL_WORK = (
    "give the ranks batches of equal work (samples of similar length), and see that nothing else "
    "uses the rank's device"
)
FIXES = {
    "data": "have every rank load equally much: shards of equal size, samples of similar length, "
    "the same number of loader workers, equally fast disks",
    "saving": "save in another thread, or have every rank save its own part",
    "other": "all ranks wait for what one does alone: do it every n steps, or in another thread",
    "evaluation": "share the evaluation among the ranks",
    "forward": EQUAL_WORK,
    "backward": EQUAL_WORK,
    BOTH_PASSES: EQUAL_WORK,
}
NO_PHASE = "see that nothing else uses the rank's device and cores, and that it is not throttled"


def ranks_of(payload: ProfilePayload) -> tuple[Rank, ...]:
    """The ranks that were seen, with their waits split where those of every rank are known."""
    seen = payload.ranks
    waits = [_waits(times) for times in seen]
    sums = [sum(each.values()) for each in waits]
    known = len(seen) == payload.world and all(map(_known, seen, sums))
    least = min(sums, default=0.0)
    return tuple(
        Rank(
            times.rank,
            times.steps,
            times.step,
            _own(times, each),
            waited - least if known else None,
            least if known else None,
            times.core,
        )
        for times, each, waited in zip(seen, waits, sums, strict=True)
    )


def _waits(times: RankTimes) -> dict[str, float]:
    """What a rank waits for others, by the phase in which it does."""
    by_ddp = {"backward": times.exposed or 0.0, "forward": times.buffers}
    return {
        name: min(spent, by_ddp.get(name, 0.0) + spent * _called(times.lines.get(name, ())))
        for name, spent in times.phases.items()
    }


def _called(lines: Iterable[SampledLine]) -> float:
    """The share of a phase in collectives that the script calls itself."""
    return sum(
        line.share * share
        for line in lines
        for call, share in line.calls
        if COLLECTIVE.search(call.partition("(")[0])
    )


def _known(times: RankTimes, waited: float) -> bool:
    return times.steps >= FEWEST and (times.exposed is not None or waited > 0)


def _own(times: RankTimes, waits: Mapping[str, float]) -> dict[str, float]:
    """The rank's own work by phase."""
    found: dict[str, float] = defaultdict(float)
    for name, spent in times.phases.items():
        found[JOINED.get(name, name)] += spent - waits[name]
    return dict(found)


@dataclass(frozen=True)
class _Last:
    """The rank that arrives last at the collectives, `late` seconds a step after the next one.

    `error` is the standard error of that. `core`: by how much longer its threads wait for a core
    than those of the next one. `beyond`: the rest of what it is late.
    """

    rank: Rank
    times: RankTimes
    late: float
    core: float
    error: float

    @property
    def beyond(self) -> float:
        return self.late - self.core

    @property
    def proved(self) -> bool:
        """Whether it is late by more than chance and waits for a core can make it."""
        least = LEAST_LATE * self.rank.step + CONTENDED * self.rank.core
        return self.beyond > max(least, CERTAIN * self.error)


def straggling(payload: ProfilePayload) -> list[Finding]:
    """The finding of a rank that all others wait for, if there is one.

    How much longer its threads wait for a core is taken off: that may be all that makes it late.
    """
    ranks = ranks_of(payload)
    last = _last(ranks, payload.ranks)
    if last is None or not last.proved:
        return []
    number, step = last.rank.rank, last.rank.step
    share, phase = last.beyond / step, _cause(last, ranks)
    cause = (
        f"its {CAUSES.get(phase, phase)} {'make' if phase == BOTH_PASSES else 'makes'} it late"
        if phase
        else "no single phase stands out"
    )
    what = f"{headline(f'waiting for rank {number}', share, step)}; {cause}"
    place, text = _line(last.times, phase)
    most = bound(share, step)
    phases = COMPUTE if phase == BOTH_PASSES else (phase,) if phase else ()
    says, gain = FIXES.get(phase, NO_PHASE), share
    if says == EQUAL_WORK:  # the others have to do what this rank is relieved of
        gain *= 1.0 - 1.0 / payload.world
        shorter = f"the same work makes a step {duration(gain * step)} shorter"
        says = f"{EQUAL_WORK}; shared equally, {shorter}"
    remedy = Remedy(STRAGGLER, says, phases, place, most, gain)
    return [Finding(what, place, text, share, most, (remedy,))]


def late_for_a_core(payload: ProfilePayload) -> list[str]:
    """That the last rank may be late only because its threads wait for a core."""
    last = _last(ranks_of(payload), payload.ranks)
    if last is None or last.proved:
        return []
    step, core = last.rank.step, last.rank.core
    if last.late < max(LEAST_LATE * step, CERTAIN * last.error) or core < LEAST_LATE * step:
        return []
    return [
        f"rank {last.rank.rank} arrives last at the collectives, by {last.late / step:.0%} of a "
        f"step, but its threads wait for a core for {core / step:.0%} of it: cores are short"
    ]


def _last(ranks: Sequence[Rank], times: Sequence[RankTimes]) -> _Last | None:
    """The rank that waits least, where all waits are known."""
    waits = [rank.straggler for rank in ranks if rank.straggler is not None]
    if len(waits) < 2:
        return None
    at, after, *_ = sorted(range(len(waits)), key=lambda index: waits[index])
    core = ranks[at].core - ranks[after].core
    return _Last(ranks[at], times[at], waits[after], core, math.hypot(*map(_error, times)))


def _error(times: RankTimes) -> float:
    """The standard error of a rank's own work, also by how few samples its collectives got."""
    sampled = [
        spent * _error_of_share(part, sum(line.samples for line in times.lines[name]))
        for name, spent in times.phases.items()
        if (part := _called(times.lines.get(name, ())))
    ]
    return math.hypot(*times.errors.values(), *sampled)


def _error_of_share(share: float, samples: int) -> float:
    """The standard error of a share of so many samples, with two of each kind added (Agresti)."""
    moved = (min(1.0, share) * samples + 2) / (samples + 4)
    return math.sqrt(moved * (1.0 - moved) / (samples + 4))


def _cause(last: _Last, ranks: Sequence[Rank]) -> str:
    """The phase that makes a rank late; empty where none alone does.

    By what it takes longer than on the other ranks, less what the threads wait longer for a core.
    """
    others = [rank for rank in ranks if rank is not last.rank]
    longer = {
        name: spent - sum(rank.phases.get(name, 0.0) for rank in others) / len(others)
        for name, spent in last.rank.phases.items()
    }
    enough = max(MOST_OF_IT * last.beyond, CERTAIN * last.error) + max(0.0, last.core)
    phase = max(longer, key=lambda name: longer[name])
    if longer[phase] >= enough:
        return phase
    both = sum(longer.get(name, 0.0) for name in COMPUTE)
    return BOTH_PASSES if both >= enough else ""


def _line(times: RankTimes, phase: str) -> tuple[str, str]:
    """The costliest line of a phase."""
    costs = [
        (spent * line.share, line.place, line.text)
        for name, spent in times.phases.items()
        if phase in {JOINED.get(name, name), BOTH_PASSES if name == "forward" else ""}
        for line in times.lines.get(name, ())
    ]
    _, place, text = max(costs, default=(0.0, "", ""))
    return place, text
