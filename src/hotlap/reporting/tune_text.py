"""The outcome of a tune in the terminal and as JSON."""

import os
import shlex
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hotlap.core.amounts import duration, several
from hotlap.core.move import variables
from hotlap.core.protocol import ProfilePayload
from hotlap.core.recipe import NAME
from hotlap.core.registry import technique
from hotlap.profile.findings import WORTH
from hotlap.profile.model import TITLES, Profile, rare_share, shares_of, usual_times
from hotlap.reporting import findings_text, tune_table
from hotlap.reporting.findings_text import cost, show_steps
from hotlap.reporting.race_text import CORRECTED, timed
from hotlap.reporting.words import (
    TOO_FEW,
    background,
    hanging,
    more_memory,
    named,
    pasted,
    roughly,
    speed,
)
from hotlap.trial.command import hotlap_line, plain_lines, run_line, shown
from hotlap.trial.launch import PASSIVE_WAIT, SLEEPING_IN_MOST, SLEEPING_THREADS
from hotlap.trial.race import RaceResult
from hotlap.trial.stats import Verdict
from hotlap.tune.candidates import spins
from hotlap.tune.result import (
    ENDED,
    OUT_OF_TIME,
    Outcome,
    Status,
    TimeUse,
    TuneResult,
    UpperBound,
)
from hotlap.tune.time_plan import FEWEST_PAIRS

LABEL_COLUMNS = 12
ONLY_COLUMNS = 50
"""Columns of the names that one `--only` has: a terminal of 80 need not break the list."""
PROSE = ("written:", "")
"""Labels of what is no command to paste."""
PHASES = 4
"""Phases of a step that are named, the largest first."""
ADVISED = 5
"""Pieces of advice that are printed."""
BUSY_CORES = 0.5
CALM_WAIT = "10m"
ON_A_BUSY_MACHINE = (
    "(threads sleep while they wait, as in the races; leave the variables out once other programs "
    "let go of the cores)"
)
ON_TOP = "each row is measured on top of the techniques kept above it"
SWITCHED = "raced by switching it on and off in one live process: {}"
LONG_SECONDS = 300.0
"""Time of a race, as one of whole epochs takes it, from which it is named."""
MUCH_RARE = 0.2
"""Part of the time in a few steps from which the gain over the whole training is said as well."""
SAYS_LITTLE = 2.0
"""Upper end of an interval from which it bounds nothing, where its lower end is not above 1."""
TOO_NOISY = "not measured: the machine was too noisy"
LEFT_OUT = {Status.NOT_ALLOWED: "would change numerics or the training (--allow)"}
"""Statuses of what was not raced that say too little by themselves."""


def show(out: Console, result: TuneResult, written: Path | None, *, everything: bool) -> None:
    """The outcome of a tune, on a console: conditions, rows, headline, next commands."""
    _show_conditions(out, result)
    _show_rows(out, result, everything=everything)
    for note in _notes(result):
        out.print(Text(hanging(f"note: {note}", out.width, "", "  ")))
    _show_headline(out, result)
    if result.timed:
        _show_advice(out, result)
    if words := spent(result):
        out.print(Text(hanging(words, out.width, "", "  "), "dim"))
    out.print()
    _show_next(out, next_steps(result, written))


def show_findings(out: Console, profile: Profile, result: TuneResult) -> None:
    """All that the profile found, where nothing was raced; else the outcome names what is left.

    Where no problem is known, it names none: the line that takes most is all there is to say.
    """
    if not result.timed:
        findings_text.show(out, profile, following=False)
    elif not profile.problems:
        findings_text.show_costliest(out, profile)


def show_outcome(out: Console, result: TuneResult, written: Path | None) -> None:
    """The outcome alone: the headline, what was kept, and where it was written."""
    _show_headline(out, result, brief=True)
    if result.kept:
        out.print(
            Text(hanging(f"kept: {', '.join(row.technique for row in result.kept)}", out.width))
        )
    _show_next(out, [step for step in next_steps(result, written) if step[0] == "written:"])


def _show_headline(out: Console, result: TuneResult, *, brief: bool = False) -> None:
    """The outcome in a sentence, and the figures of the final race; `brief`: there is no table."""
    style = "bold green" if result.confirmed else "bold"
    out.print(Text(hanging(headline(result), out.width, "", "  "), style))
    if result.final is not None and result.final_parity is not None:
        after = " after its verdict" if result.final.estimate == result.final.fresh else ""
        figures = (
            f"{duration(result.final.a_step)} a step became {duration(result.final.b_step)} "
            f"({several(result.final.estimate.pairs, 'pair')}{after}"
            f"{f', {CORRECTED}' if result.final.corrected else ''}); peak memory "
            f"{more_memory(result.final.memory)}"
        )
        if result.final.unit == "step" and result.profile and result.profile.facts.get("loaders"):
            figures += f"; {timed(result.final)}"
        figures += _over_all(result.final, result.profile)
        parity = result.final_parity.reason
        said = any(row.reason == parity for row in result.kept) and not brief
        out.print(Text(hanging(figures if said else f"{figures}; {parity}", out.width, "", "  ")))


def _over_all(final: RaceResult, profile: ProfilePayload | None) -> str:
    """What a gain in plain steps is over the whole training, where other steps take much of it."""
    rare = rare_share(profile) if profile and final.unit == "step" else 0.0
    if final.epoch_shared or rare < MUCH_RARE or final.estimate.ratio <= 1.0:
        return ""
    ratio = 1.0 / (rare + (1.0 - rare) / final.estimate.ratio)
    return (
        f"; {rare:.0%} of the profiled time was in a few steps (stalls, evaluations, checkpoints): "
        f"if they stay as they are, the whole is {ratio:.2f}x as fast"
    )


def _show_next(out: Console, steps: Iterable[tuple[str, str]]) -> None:
    for label, text in steps:
        first = f"{label:{LABEL_COLUMNS}}"
        if label not in PROSE:
            indent = " " * LABEL_COLUMNS
            lines = "\n".join(pasted(line, out.width, indent) for line in text.splitlines())
            out.print(Text(first + lines[LABEL_COLUMNS:]), soft_wrap=True)
        else:
            out.print(Text(hanging(text, out.width, first, " " * LABEL_COLUMNS)))


def headline(result: TuneResult) -> str:
    """The outcome in one sentence."""
    if result.final is not None:
        return _final_words(result, result.final)
    if result.interrupted and result.kept:
        return "interrupted: the combined recipe was not verified"
    if result.interrupted:
        return "interrupted: nothing was kept by then"
    if result.failed:
        outcome = "stopped early, so that no recipe was verified" if result.timed else "not raced"
        return f"{outcome}: {result.failed}"
    if not result.timed:
        return "nothing was raced"
    return _nothing_kept(result)


def _nothing_kept(result: TuneResult) -> str:
    if dependent := load_dependent(result):
        rows = (f"{named(row.technique, row.values)} {_speed(row)}" for row in dependent)
        return f"nothing was kept; faster while other programs use the cores: {', '.join(rows)}"
    raced = {Status.NOT_FASTER, Status.SAME, Status.BROKE_PARITY}
    if result.open and not any(row.status in raced for row in result.raced):
        return "inconclusive: the time was too short to settle any technique on this machine"
    if result.open:
        names = len({row.technique for row in result.open})
        return f"nothing was kept; for {several(names, 'technique')} the time was too short"
    return "nothing that was raced was shown to make this script faster on this machine"


def _speed(row: Outcome) -> str:
    return speed(row.estimate) if row.estimate else ""


def _final_words(result: TuneResult, final: RaceResult) -> str:
    found = speed(final.estimate)
    if result.broke_parity:
        return f"{found}, but the whole recipe broke parity: it is not confirmed"
    if result.confirmed:
        asleep = ", both sides with sleeping threads" if final.passive_wait else ""
        return f"{found} faster with the whole recipe{asleep}"
    words = "not faster" if final.verdict is Verdict.SAME else str(final.verdict)
    parts = ", though each part was faster" if len(result.kept) > 1 else ""
    return f"{found} {words}: the whole recipe is not confirmed{parts}"


def next_steps(result: TuneResult, written: Path | None) -> list[tuple[str, str]]:
    """What was written, and commands to paste: to use it, and to settle what is open."""
    command = shown(result.command)
    found = []
    option = "" if written in {None, Path(NAME)} else f"--recipe {shlex.quote(str(written))}"
    slept = SLEEPING_THREADS in result.notes and not _sleep_refuted(result)
    dependent = load_dependent(result)
    used = run_line(option, command) if written else command
    if written is None:
        why = "it cannot be written" if result.kept else "nothing was kept"
        stays = f"; {result.base_recipe} stays as it is" if result.base_recipe else ""
        found.append(("written:", f"no recipe, as {why}{stays}"))
    else:
        state = "confirmed" if result.confirmed else "not confirmed"
        state += ": it broke parity" if result.broke_parity else ""
        found.append(("written:", f"{written} ({state})"))
        asleep = PASSIVE_WAIT if slept else {}
        label = "use it:" if result.confirmed else "try it:"
        if not (result.broke_parity or _looks_slower(result)):
            found.append((label, "\n".join(plain_lines(used, asleep))))
            found += [("", ON_A_BUSY_MACHINE)] if asleep else []
    if dependent:
        loaded = "\n".join(plain_lines(used, _assigned(dependent[0])))
        found += [] if loaded in dict(found).values() else [("under load:", loaded)]
    if result.open and (result.timed or not result.failed):
        found += _settling(result, written)
    if slept and not dependent:
        is_open = any(spins(technique(row.technique)) for row in result.open)
        found += [("race it:", line) for line in _asleep(command) if is_open]
        found += [] if written else [("as raced:", "\n".join(plain_lines(used, PASSIVE_WAIT)))]
    calm = _when_calm(dependent, command)
    return [*found, ("when calm:", "\n".join(calm))] if calm else found


def _looks_slower(result: TuneResult) -> bool:
    """Whether the best guess of the recipe's final race is that nothing is gained."""
    return result.final is not None and result.final.estimate.ratio <= 1.0


def _sleep_refuted(result: TuneResult) -> bool:
    """Whether the race of sleeping threads showed that they gain nothing here, load or not."""
    gains_nothing = {Status.NOT_FASTER, Status.SAME}
    return any(
        row.status in gains_nothing and spins(technique(row.technique)) for row in result.outcomes
    )


def _when_calm(dependent: Iterable[Outcome], command: str) -> list[str]:
    """What tells on a calm machine whether gains that depend on the load last."""
    names = dict.fromkeys(row.technique for row in dependent)
    others = [name for name in names if not spins(technique(name))]
    lines = [hotlap_line("tune", f"--only {','.join(others)}", command)] if others else []
    if len(others) < len(names):  # no tune on a calm machine sees what makes it a candidate
        lines += _asleep(command)
    return lines


def _asleep(command: str) -> list[str]:
    """The race of sleeping threads against the command as it is; a notebook is no command."""
    lines = plain_lines(command, PASSIVE_WAIT)
    return [f"hotlap race {command} -- env {lines[0]}"] if len(lines) == 1 else []


def _notes(result: TuneResult) -> list[str]:
    """What is to be known; of sleeping threads, which races did not have them."""
    if not any(row.race and spins(technique(row.technique)) for row in result.raced):
        return result.notes
    return [SLEEPING_IN_MOST if note == SLEEPING_THREADS else note for note in result.notes]


def load_dependent(result: TuneResult) -> list[Outcome]:
    """The rows that were faster under load, and were not kept for that: the best one first.

    A row that was raced with sleeping threads comes before the one of that sleep itself.
    """

    def gain(row: Outcome) -> tuple[bool, float]:
        asleep = row.race is not None and row.race.passive_wait
        return asleep, row.estimate.low if row.estimate else 0.0

    rows = [row for row in result.outcomes if row.status is Status.LOAD_DEPENDENT]
    return sorted(rows, key=gain, reverse=True)


def _assigned(row: Outcome) -> dict[str, str]:
    """A row's environment variables, those of its race included."""
    waiting = PASSIVE_WAIT if row.race and row.race.passive_wait else {}
    return {**waiting, **variables(technique(row.technique).moves, row.values)}


def _settling(result: TuneResult, written: Path | None) -> list[tuple[str, str]]:
    """The command that settles open rows: by time, or else by waiting for a calmer machine.

    It races them on top of the recipe that was confirmed.
    """
    base, on, again = _base(result, written)
    rows = result.settles or [row.technique for row in result.open]
    names = dict.fromkeys([*again, *rows])
    time = f"--budget {span(result.needed)}" if result.settles else f"--wait {CALM_WAIT}"
    options = " ".join(filter(None, (time, base, _only(names))))
    line = hotlap_line("tune", options, shown(result.command))
    stays = "stays" if len(on) == 1 else "stay"
    said = [("", f"({', '.join(on)} {stays} on: the others are measured on top)")] if on else []
    if not result.settles:
        return [("when calm:", line), *said]
    found = [("settle it:", line), *said]
    if result.load > BUSY_CORES:
        cores = os.cpu_count() or 1
        busy = f"other programs used {min(result.load, cores):.1f} of {cores} cores"
        found.append(("", f"or the same with --wait {CALM_WAIT}, on a calmer machine: {busy}"))
    return found


def _base(result: TuneResult, written: Path | None) -> tuple[str, list[str], list[str]]:
    """The option that has a recipe on in every race, what it has on, and what is raced again.

    What was kept and not confirmed is raced again, on top of the recipe that this tune began with.
    """
    kept = list(dict.fromkeys(row.technique for row in result.kept))
    again = [] if result.confirmed and written else kept
    recipe = str(written) if kept and not again else result.base_recipe
    if not recipe:
        return "", [], again
    into = "" if recipe == NAME else f" --recipe {shlex.quote(recipe)}"
    on = result.base if again else result.chosen or kept or result.base
    return f"--base {shlex.quote(recipe)}{into}", list(on), again


def _only(names: Iterable[str]) -> str:
    """The option that names techniques, given as often as it takes to fit into lines."""
    lists = textwrap.wrap(" ".join(names), ONLY_COLUMNS, break_long_words=False)
    return " ".join(f"--only {','.join(one.split())}" for one in lists)


def switched(names: Iterable[str]) -> str:
    """Which techniques were not raced between two processes."""
    return SWITCHED.format(", ".join(dict.fromkeys(names)))


def span(seconds: float) -> str:
    """A time as an option takes it: `90s`, `12m`."""
    return f"{seconds:.0f}s" if seconds < 180 else f"{-(-seconds // 60):.0f}m"


def _show_rows(out: Console, result: TuneResult, *, everything: bool) -> None:
    raced = result.raced
    if raced:
        out.print(tune_table.table(raced, out.width))
        live = [row.technique for row in raced if row.race and row.race.switched]
        lines = [ON_TOP] if result.kept else []
        lines += [switched(live)] if live else []
        for line in lines:
            out.print(Text(hanging(line, out.width, "", "  "), "dim"))
        out.print()
    others = [row for row in result.outcomes if row not in raced]
    if everything and others:
        out.print(tune_table.table(others, out.width))
        out.print()
    elif others:
        out.print(Text(hanging(_left_out(others), out.width, "", "  "), "dim"))


def _left_out(rows: Iterable[Outcome]) -> str:
    """How many were not raced, and which for want of time or by the end of the tune."""
    rows = list(rows)
    cut = dict.fromkeys(row.technique for row in rows if row.reason == ENDED)
    late = dict.fromkeys(_late(row) for row in rows if row.is_open and row.reason != ENDED)
    counts = {s: sum(row.status is s and not row.is_open for row in rows) for s in Status}
    words = [f"{n} {LEFT_OUT.get(s, s)}" for s, n in counts.items() if n]
    if cut:
        words.insert(0, f"not reached: {', '.join(cut)}")
    if late:
        words.insert(0, f"no time left for {', '.join(late)}")
    return f"left out: {'; '.join(words)} (--verbose says why)"


def _late(row: Outcome) -> str:
    """What no time was left for, and why or how much it takes where that is long."""
    why = row.reason.removeprefix(OUT_OF_TIME).removeprefix(": ")
    if row.reason.startswith(OUT_OF_TIME) and why:
        return f"{row.technique} ({why})"
    long = row.seconds_needed >= LONG_SECONDS
    return f"{row.technique} ({roughly(row.seconds_needed)})" if long else row.technique


def _show_advice(out: Console, result: TuneResult) -> None:
    """What no race of this tune has judged, the largest expected gain first."""
    if not result.advice:
        return
    out.print("\n[bold]Yours to do[/] (seen in the profile; no race of this tune has judged it)")
    for one in result.advice[:ADVISED]:
        words = f"{one.technique} [{one.place}]: {cost(one.share, one.most)}; {one.says}"
        out.print(Text(hanging(words, out.width, "  - ", "    ")))
        show_steps(out, one.lines, one.notes if one.lines else ())
    if len(result.advice) > ADVISED:
        rest = hotlap_line("profile", "", shown(result.command))
        more = f"{len(result.advice) - ADVISED} more: {rest}"
        out.print(Text(hanging(more, out.width, "  - ", "    ")))
    out.print()


def spent(result: TuneResult) -> str:
    """What the time went to, in a line."""
    use, whole = result.time_use, result.seconds
    if not whole:
        return ""
    parts = [("profiling", use.profiling), ("starting processes", use.starting),
             ("racing", use.racing), ("other", use.other)]  # fmt: skip
    shares = ", ".join(f"{seconds / whole:.0%} {name}" for name, seconds in parts)
    return f"of {duration(whole)}: {shares}"


def _unraced(use: TimeUse) -> str:
    """How many processes never ran a race; nothing where each did."""
    return f"; {use.unraced} of {len(use.processes)} processes ran no race" if use.unraced else ""


def _show_conditions(out: Console, result: TuneResult) -> None:
    """Where a step's time goes, the noise floor, the background load and the upper bounds."""
    lines = [plain_step(result.profile, asleep=result.asleep)] if result.profile else []
    if result.noise_floor is not None:
        e = result.noise_floor.estimate
        same = f"; its first {result.repeated_steps} steps repeat exactly"
        if not result.deterministic:
            same = "" if result.deterministic is None else "; a run does not repeat exactly"
        figure = speed(e) if e.pairs >= FEWEST_PAIRS else TOO_FEW
        lines.append(f"noise floor (A/A test): {figure}{same}")
        if result.noisy:
            lines.append("the machine is very noisy at the moment: small gains cannot be seen")
    lines.append(background(result.load))
    lines += [f"{bound.title}: {_bounded(bound)}" for bound in result.upper_bounds]
    lines.append(f"time: {duration(result.seconds)} of {duration(result.budget)}")
    for line in lines:
        out.print(Text(hanging(line, out.width, "", "  "), "dim"))
    out.print()


def plain_step(profile: ProfilePayload, *, asleep: bool = False) -> str:
    """How long a step of the plain script took in the profile, and its largest phases.

    `asleep`: its OpenMP threads slept while they waited, though the user's would spin.
    """
    (_, step), shares = usual_times(profile), shares_of(profile)
    largest = sorted(TITLES.keys() & shares, key=lambda name: shares[name], reverse=True)
    parts = [f"{shares[name]:.0%} {TITLES[name]}" for name in largest if shares[name] >= WORTH]
    of = f": {', '.join(parts[:PHASES])}" if parts else ""
    how = ", with sleeping threads" if asleep else ""
    return f"a step of the plain script, profiled{how}: {duration(step)}{of}"


def _bounded(bound: UpperBound) -> str:
    """What an upper-bound race measured; nothing where its interval leaves everything open."""
    known = bound.estimate
    if known is None:
        return f"unknown: {bound.reason}"
    if known.pairs < FEWEST_PAIRS:
        return TOO_FEW
    if known.low <= 1.0 and known.high > SAYS_LITTLE:
        return TOO_NOISY
    return speed(known)


def document(result: TuneResult, written: Path | None) -> dict[str, object]:
    """The outcome as plain data."""
    seen, fields = result.profile, asdict(replace(result, profile=None))
    del fields["profile"]
    return {
        **fields,
        "notes": _notes(result),
        "time_spent": f"{spent(result)}{_unraced(result.time_use)}",
        "command_line": shown(result.command),
        "next_steps": [text for label, text in next_steps(result, written) if label not in PROSE],
        "phases": {name: phase.mean for name, phase in seen.phases.items()} if seen else {},
        "memory_by_owner": seen.memory.by_owner if seen else {},
        "confirmed": result.confirmed,
        "headline": headline(result),
        "recipe": str(written) if written else None,
        "final_steps": _steps(result.final),
    }


def _steps(final: RaceResult | None) -> dict[str, float] | None:
    return None if final is None else {"plain": final.a_step, "tuned": final.b_step}
