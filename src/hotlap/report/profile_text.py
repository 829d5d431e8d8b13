"""How a profile looks in the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hotlap.profile.model import Finding, Headroom, Profile
from hotlap.report.words import duration, ratio

BAR = 24
LINES = 3
MEMORY_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def show(out: Console, profile: Profile, *, brief: bool = False) -> None:
    """The profile, on a console; `brief` leaves out all but the findings."""
    if not brief:
        _show_step(out, profile)
        out.print(_phases(profile))
        _show_rest(out, profile)
        _show_memory(out, profile)
        if profile.headroom is not None:
            out.print(f"[bold]limit[/]   {_limit(profile.headroom)}")
        for note in profile.notes:
            out.print(note, style="dim")
        out.print()
    if not profile.findings:
        out.print("[bold]nothing found that would be worth 2 %[/]")
    for number, finding in enumerate(profile.findings, 1):
        _show_finding(out, number, finding)
    if profile.findings and not brief:
        out.print(
            "`hotlap tune` races these and keeps what is proved; `hotlap explain ID`", style="dim"
        )


def _show_step(out: Console, profile: Profile) -> None:
    spread = f"{duration(profile.step_p10)} to {duration(profile.step_p90)}"
    out.print(
        f"[bold]{duration(profile.step)} a step[/] on {profile.device}, over {profile.steps} steps "
        f"(80 % of them {spread})"
    )
    rates = [f"{profile.samples_per_second:,.0f} samples/s"] if profile.samples_per_second else []
    if profile.tokens_per_second:
        rates.append(f"{profile.tokens_per_second:,.0f} tokens/s")
    if rates:
        out.print(", ".join(rates))
    out.print()


def _phases(profile: Profile) -> Table:
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("phase", no_wrap=True)
    for title in ("a step", "share"):
        drawn.add_column(title, justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    drawn.add_column("80 % of steps", no_wrap=True)
    for phase in sorted(profile.phases, key=lambda phase: phase.mean, reverse=True):
        if phase.share < 0.0005:
            continue
        bar = Text("█" * round(phase.share * BAR) or "▏", style="cyan")
        spread = f"{duration(phase.p10)} to {duration(phase.p90)}"
        rare = "now and then" if not phase.p90 else spread
        drawn.add_row(phase.title, duration(phase.mean), f"{phase.share:.1%}", bar, rare)
    return drawn


def _show_rest(out: Console, profile: Profile) -> None:
    rest = next((phase for phase in profile.phases if phase.name == "rest"), None)
    lines = profile.lines.get("rest", ())
    if rest is None or rest.share < 0.02 or not lines:
        return
    out.print("\n[bold]the rest, by line[/]")
    for line in lines[:LINES]:
        out.print(_shortened(f"  {line.share:4.0%}  {line.place}  {line.text}", out))


def _show_memory(out: Console, profile: Profile) -> None:
    out.print()
    owners = {name: size for name, size in profile.memory_by_owner.items() if size}
    phases = profile.memory_by_phase
    words = ", ".join(f"{name} {_size(size)}" for name, size in owners.items())
    peak = f"peak {_size(profile.peak_memory)}"
    if phases:
        top = max(phases, key=lambda name: phases[name])
        peak += f", highest in {top}"
    out.print(f"[bold]memory[/]  {peak}" + (f"; {words}" if words else ""))


def _limit(headroom: Headroom) -> str:
    words = f"{_flops(headroom.flops)} a step, {_flops(headroom.rate)}/s"
    if headroom.share is not None and headroom.peak is not None:
        words += f": {headroom.share:.0%} of the measured {headroom.dtype} peak"
        words += f" of {_flops(headroom.peak)}/s"
    return words + (f" ({headroom.caution})" if headroom.caution else "")


def _show_finding(out: Console, number: int, finding: Finding) -> None:
    most = "no bound" if finding.most > 100 else f"at most {ratio(finding.most)}"
    out.print(f"[bold]{number}. {finding.what}[/] [green]({most})[/]")
    if finding.place:
        out.print(_shortened(f"   at {finding.place}  {finding.text}", out), style="cyan")
    for remedy in finding.remedies:
        where = f" [{remedy.place}]" if remedy.place and remedy.place != finding.place else ""
        out.print(Text(f"   - {remedy.id}: {remedy.says}{where}"))
    out.print()


def _shortened(text: str, out: Console) -> Text:
    found = Text(text)
    found.truncate(max(40, out.width - 1), overflow="ellipsis")
    return found


def _size(size: int) -> str:
    return next((f"{size / unit:.1f} {name}" for unit, name in MEMORY_UNITS if size >= unit), "0")


def _flops(count: float) -> str:
    for unit, name in ((1e15, "PFLOP"), (1e12, "TFLOP"), (1e9, "GFLOP")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count / 1e6:.3g} MFLOP"
