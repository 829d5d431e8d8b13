"""How a profile looks in the terminal."""

import os
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import duration, several, size
from hotlap.profile.findings import FEW
from hotlap.profile.model import (
    NO_BOUND,
    STEADY,
    TITLES,
    Finding,
    Headroom,
    Line,
    Phase,
    Profile,
    was_interrupted,
)
from hotlap.reporting import findings_text, layers_text, ranks_text
from hotlap.reporting.tables import Column, Row, table
from hotlap.reporting.words import count, hanging, shortened
from hotlap.trial.command import THIS_CELL
from hotlap.trial.launch import SLEEPING_IN_PROFILE
from hotlap.trial.load import shared

COLUMNS = (
    Column("phase", left=True),
    Column("a step"),
    Column("share"),
    Column("", left=True, spare=1),
    Column("80 % of steps", left=True),
)
BAR = 24
LINES = 3
LEAST_SHARE = 0.02
"""Share of a step from which a phase's lines are shown."""
LEAST_OF_LINE = 0.005
"""Share of a step from which a line is shown beside the costliest of its phase."""
MUCH = 0.3
"""Part of a line's time from which an operator is named beside it."""
LEAST_SOURCE = 20
"""Characters of a line's source without which its operators are not named."""
BEHIND = "backward, by line of the forward pass"
SMALL = 0.01
UNSTEADY = 6
AT_SOME_STEPS = frozenset({"loader", "evaluation", "evaluation_data", "saving"})
OUTLIERS = 0.9
"""The usual time over the mean below which a few steps are said to make the mean."""
NAMED_PADDING = 0.05
WAITS = 0.05
MOST_NAMED = 3
UNSTEADY_SAYS = (
    "where the data does not, other programs use the machine, or OpenMP threads wait for one "
    "another (with OMP_NUM_THREADS=1 they do not)"
)


def show(out: Console, profile: Profile, *, brief: bool = False) -> None:
    """The profile, on a console; `brief` leaves out all but the findings."""
    if profile.partial:
        out.print(_partial(profile), style="bold yellow")
    if not brief:
        _show_step(out, profile)
        out.print(_phases(profile, out.width))
        if words := _usual(profile):
            out.print(Text(hanging(words, out.width)), style="dim")
        _show_lines(out, profile)
        ranks_text.show(out, profile)
        _show_memory(out, profile)
        if profile.headroom is not None:
            _entry(out, "limit", limit(profile.headroom))
        if words := waits(profile):
            _entry(out, "GPU", words)
        for note in profile.notes:
            out.print(Text(hanging(note, out.width)), style="dim")
        out.print()
    if profile.layers:
        layers_text.show(out, profile.layers)
    findings_text.show(out, profile, brief=brief)


def under_load(profile: Profile, other_cores: float, *, asleep: bool = False) -> Profile:
    """The profile with a note on the cores that other programs used, where they used many.

    What limits a step on the CPU cannot be told from the distance to the peak then, nor what a
    change gives at most from its share of the step. `asleep`: the program's threads were made to
    sleep while they wait, since the machine was busy at the start.
    """
    notes = (SLEEPING_IN_PROFILE,) if asleep else ()
    if not shared(other_cores):
        return replace(profile, notes=(*notes, *profile.notes))
    cores = os.cpu_count() or 1
    used = f"other programs used {min(other_cores, cores):.1f} of {cores} cores meanwhile"
    note = (
        f"{used}: times are longer than on a calm machine, and shares differ, so that no bound (at "
        "most) follows from them; profile again when it is idle"
    )
    headroom = profile.headroom
    if headroom is not None and profile.device == "cpu":
        headroom = replace(headroom, caution="the cores were shared")
    findings = tuple(unbounded(finding) for finding in profile.findings)
    return replace(
        profile, notes=(note, *notes, *profile.notes), headroom=headroom, findings=findings
    )


def unbounded(finding: Finding) -> Finding:
    """The finding without the bounds that follow from shares of a step."""
    remedies = tuple(
        replace(remedy, most=NO_BOUND) if remedy.most > 1.0 else remedy
        for remedy in finding.remedies
    )
    return replace(finding, most=NO_BOUND if finding.most > 1.0 else 1.0, remedies=remedies)


def _partial(profile: Profile) -> str:
    steps = f"{profile.steps} step{'s' * (profile.steps != 1)}"
    return f"partial: {profile.partial}; what follows is of the {steps} before"


def _show_step(out: Console, profile: Profile) -> None:
    spread = f"{duration(profile.step_p10)} to {duration(profile.step_p90)}"
    some = 0 < profile.detailed < profile.steps
    detail = f", {profile.detailed} of them in detail" if some else ""
    out.print(
        f"[bold]{duration(profile.step)} a step[/] on {profile.device}, over {profile.steps} steps "
        f"(80 % of them {spread}){detail}"
    )
    if profile.inference:
        for line in _inference(profile):
            out.print(line)
    if _is_unsteady(profile):
        times = f"{profile.step_p90 / profile.step_p10:.0f}-fold"
        out.print(Text(hanging(f"steps vary {times}: {UNSTEADY_SAYS}", out.width)), style="yellow")
    if rough := few_steps(profile):
        out.print(Text(hanging(rough, out.width)), style="yellow")
    if words := rates(profile):
        out.print(Text(hanging(words, out.width)))
    out.print()


def _is_unsteady(profile: Profile) -> bool:
    """Whether steps differ much in length, and not by what only some of them do."""
    some = sum(phase.p90 for phase in profile.phases if phase.name in AT_SOME_STEPS)
    return profile.step_p90 - some > UNSTEADY * profile.step_p10


def rates(profile: Profile) -> str:
    """Samples and tokens a second, as far as they are known; how many batches a step takes."""
    found = [f"{profile.samples_per_second:,.0f} samples/s"] if profile.samples_per_second else []
    if profile.tokens_per_second:
        padding = profile.facts.get("padded_share")
        known = isinstance(padding, float) and padding >= NAMED_PADDING
        of_them = f", {padding:.0%} of them padding" if known else ""
        found.append(f"{profile.tokens_per_second:,.0f} tokens/s{of_them}")
    of_ranks = _of_ranks(profile) if found else ""
    passes = [f"{profile.backwards} backward passes a step"] if profile.backwards > 1 else []
    return ", ".join(found) + of_ranks + "; " * bool(found and passes) + "".join(passes)


def _of_ranks(profile: Profile) -> str:
    """Whose rates these are where several processes train."""
    if profile.world < 2:
        return ""
    together = profile.world * (profile.samples_per_second or profile.tokens_per_second)
    unit = "samples" if profile.samples_per_second else "tokens"
    which = f"rank 0 of {profile.world}"
    return f" ({which}; all ranks about {together:,.0f} {unit}/s if each has batches of its own)"


def _inference(profile: Profile) -> Iterator[str]:
    """What a step is where nothing trains; its latency; prefill and decode apart."""
    model = profile.facts.get("model_name") or "the model"
    latency = ", ".join(f"{name} {duration(each)}" for name, each in profile.latency.items())
    yield f"the program does not train: a step ends with each call of {model}; latency {latency}"
    for kind, found in profile.calls.items():
        times = ", ".join(f"{name} {duration(found[name])}" for name in ("p50", "p95"))
        yield f"{kind}: {found['calls']:.0f} calls, {times}, {found['tokens']:,.0f} tokens/s"


def few_steps(profile: Profile) -> str:
    """What few steps leave open; empty where there are enough.

    An interval of two standard errors about the mean step. The distance of the 10th and the 90th
    percentile is 2.56 standard deviations of a normal distribution.
    """
    if not profile.has_few_steps:
        return ""
    in_a_cell = profile.command in ("", THIS_CELL)
    more = "profile more steps" if in_a_cell else "--budget gives it more time"
    if was_interrupted(profile.partial):
        more = "let it run longer before you end it"
    elif profile.ended_after is not None:
        more = f"the program ended after {profile.ended_after}: let it train longer"
    if profile.steps == 1:  # no interval follows from it
        return f"only 1 step timed: shares are rough; {more}"
    error = (profile.step_p90 - profile.step_p10) / 2.56 / max(1, profile.steps) ** 0.5
    low, high = max(0.0, profile.step - 2 * error), profile.step + 2 * error
    return (
        f"only {several(profile.steps, 'step')} timed: the mean step lies between about "
        f"{duration(low)} and {duration(high)}, and shares are rough; {more}"
    )


def _phases(profile: Profile, width: int) -> Text:
    rows = []
    for phase in sorted(profile.phases, key=lambda phase: phase.mean, reverse=True):
        if phase.share < 0.0005:
            continue
        bar = Text("█" * round(phase.share * BAR) or "▏", style="cyan")
        rows.append(
            Row((phase.title, duration(phase.mean), f"{phase.share:.1%}", bar, _band(phase)))
        )
    return table(COLUMNS, rows, width)


def _band(phase: Phase) -> str:
    """Where 80 % of the steps lie; where a few others make the mean, that without them."""
    if not phase.p90:
        return "occasional"
    spread = f"{duration(phase.p10)} to {duration(phase.p90)}"
    usual = phase.mean if phase.usual is None else phase.usual
    if phase.p10 <= phase.mean <= phase.p90 and usual > OUTLIERS * phase.mean:
        return spread
    if usual < phase.mean:
        return f"{spread}; {duration(usual)} without outliers"
    return f"{spread}, a few far longer"


def _usual(profile: Profile) -> str:
    """What a step takes without outliers, where the shares of the findings differ by that."""
    outliers = sum(phase.mean - (phase.usual or phase.mean) for phase in profile.phases)
    usual = profile.step - outliers
    if usual > OUTLIERS * profile.step:
        return ""
    return f"without outliers a step takes {duration(usual)}; shares below are shares of that"


def lines_by_phase(profile: Profile) -> dict[str, tuple[Line, ...]]:
    """By title, the costliest lines of the phases that take much of a step.

    The backward pass has lines of its own where Python runs in it, as below torch.func.
    """
    behind, inside = profile.backward_by_line, profile.lines.get("backward", ())
    shares = {phase.name: phase.share for phase in profile.phases}
    found = {}
    for name, lines, fewest in (
        ("forward", profile.lines.get("forward", ()), 2),
        ("backward", behind or inside, 2),
        ("optimizer", profile.lines.get("optimizer", ()), 2),
        ("evaluation", profile.lines.get("evaluation", ()), 2),
        ("other", profile.lines.get("other", ()), 1),
    ):
        if shares.get(name, 0.0) >= LEAST_SHARE and len(lines) >= fewest:
            samples = sum(line.samples for line in lines)
            few = f" (of {several(samples, 'sample')} only)" if 0 < samples < FEW else ""
            title = BEHIND if lines is behind else f"{name}, by line"
            dear = [line for line in lines[1:LINES] if line.share * shares[name] >= LEAST_OF_LINE]
            found[title + few] = (lines[0], *dear)
    return found


def operators_of(line: Line) -> str:
    """The operators that take much of a line's time, with their shares; empty if none does."""
    return ", ".join(f"{name} {share:.0%}" for name, share in line.operators if share >= MUCH)


def _show_lines(out: Console, profile: Profile) -> None:
    for title, lines in lines_by_phase(profile).items():
        out.print(f"\n[bold]{title}[/]")
        for line in lines:
            out.print(shown_line(line, out.width))


def shown_line(line: Line, width: int) -> Text:
    """Share, place, source and operators; of the source, what there is room for."""
    begin, operators = f"  {line.share:4.0%}  {line.place}  ", operators_of(line)
    comment = f"  # {operators}" if operators else ""
    if len(begin) + LEAST_SOURCE + len(comment) > width:
        comment = ""
    return shortened(f"{begin}{line.text}", width - len(comment)).append(comment, style="dim")


def _show_memory(out: Console, profile: Profile) -> None:
    out.print()
    owners = {name: found for name, found in profile.memory_by_owner.items() if found}
    words = ", ".join(f"{name} {size(found)}" for name, found in owners.items())
    _entry(out, "memory", peak_memory(profile) + (f"; {words}" if words else ""))


def peak_memory(profile: Profile) -> str:
    """The most memory that was in use, and in which phase of a step."""
    phases = profile.memory_by_phase
    peak = f"peak {size(profile.peak_memory)}"
    if not phases:
        return peak
    highest = max(phases, key=lambda name: phases[name])
    return f"{peak}, highest in {TITLES.get(highest, highest)}"


def _entry(out: Console, name: str, words: str) -> None:
    """A name in bold, and what it is about, beside it."""
    text = Text(hanging(words, out.width, f"{name:<8}", " " * 8))
    text.stylize("bold", 0, len(name))
    out.print(text)


def waits(profile: Profile) -> str:
    """How much of a step the GPU waits for the host, and where; empty where that is not known."""
    if profile.starved is None or not profile.step:
        return ""
    parts = {name: seconds / profile.step for name, seconds in profile.starved.items()}
    share = sum(parts.values())
    if share < WAITS:
        return f"the host keeps it busy: it waits for less than {WAITS:.0%} of a step"
    named = sorted(parts, key=lambda name: parts[name], reverse=True)[:MOST_NAMED]
    where = ", ".join(f"{TITLES[name]} {parts[name]:.0%}" for name in named if parts[name] >= WAITS)
    words = f"waits for the host in up to {share:.0%} of a step" + (f" ({where})" if where else "")
    launching = sum(parts.get(name, 0.0) for name in STEADY)
    if launching > share / 2:
        words += ": kernels run faster than the host starts them"
    return words


def limit(headroom: Headroom) -> str:
    """How far the step is from the machine's measured limit, in words."""
    rate = f"{count(headroom.rate, 'FLOP')}/s in forward and backward"
    words = f"{count(headroom.flops, 'FLOP')} a step, {rate}"
    if headroom.share is None or headroom.peak is None:
        return words
    peak = f"the measured {headroom.dtype} peak of {count(headroom.peak, 'FLOP')}/s"
    if headroom.share < SMALL:
        overhead = "limited by memory or by overhead (Python, kernel launches), not by arithmetic"
        return f"{words}: under 1 % of {peak}; {headroom.caution or overhead}"
    words += f": {headroom.share:.0%} of {peak}"
    return words + (f" ({headroom.caution})" if headroom.caution else "")
