"""What the verbs share: options, exit codes, the working folder, the console."""

import fcntl
import json
import math
import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from click.decorators import FC
from click.shell_completion import CompletionItem

from hotlap import __version__
from hotlap.core.errors import (
    HotlapError,
    NotReachedError,
    TrialFailedError,
    UsageError,
    did_you_mean,
)

if TYPE_CHECKING:
    from rich.console import Console

FOLDER = Path(".hotlap")
SCHEMA_VERSION = 1
MOST_INPUT = 64 << 20
"""Bytes of piped input that trials read at the most."""
PAUSE_OF_INPUT = 1.0
"""Seconds without a byte of piped input after which no more is waited for."""
WIDE = 1000
"""Columns where there is no terminal: nothing is cut off and no line is broken."""

_NUMBER = r"(\d+(?:\.\d+)?)\s*"
_SPAN = re.compile(
    rf"(?:{_NUMBER}h(?:(?:ou)?rs?)?)?\s*(?:{_NUMBER}m(?:in(?:ute)?s?)?)?\s*"
    rf"(?:{_NUMBER}(?:s(?:ec(?:ond)?s?)?)?)?"
)
_SECONDS = (3600.0, 60.0, 1.0)

OK, NEGATIVE, USAGE, NOT_REACHED, FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 130
_CODES = {UsageError: USAGE, NotReachedError: NOT_REACHED, TrialFailedError: FAILED}


def exit_code(error: HotlapError) -> int:
    """The exit code that stands for an error."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), FAILED)


COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def no_option_first(
    ctx: click.Context, _: click.Parameter, words: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse an option before the command that the verb does not have, with the one meant."""
    if words and words[0] == ctx.info_name:
        raise click.UsageError(f"the verb {words[0]!r} is given twice", ctx)
    if words and words[0].startswith("-"):
        options = [one for one in ctx.command.params if isinstance(one, click.Option)]
        known = [name for option in options for name in option.opts]
        name = words[0].partition("=")[0]
        message = f"No such option {name!r} among hotlap's, which come before the command."
        close = question(name, known) if name.startswith("--") else ""
        meant = " Did you mean `python -m`?" if name == "-m" else close
        raise click.UsageError(f"{message}{meant}", ctx)
    _note_late_option(ctx, words)
    return words


def _note_late_option(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Keep the first long option of the verb that stands in the program's own words.

    It is the program's, who may have one of that name; see `late_option`. Where its script reads no
    options at all, that is said at once.
    """
    known = {name for one in ctx.command.params for name in one.opts if name.startswith("--")}
    late = next((word for word in words if word.partition("=")[0] in known), "")
    ctx.meta[_LATE] = late and (ctx.info_name, late.partition("=")[0])
    scripts = [Path(word) for word in words if word.endswith(".py") and Path(word).is_file()]
    if late and scripts and not any(_reads_options(script) for script in scripts):
        say(f"{late} goes to the script, which reads no options: {late_option(ctx)}")


def _reads_options(script: Path) -> bool:
    """Whether a script, or what it imports from its own folder, may look at its command line."""
    near = script.parent.glob("*.py")
    return any(_OPTIONS.search(file.read_text("utf-8", "replace")) for file in near)


_OPTIONS = re.compile(
    r"argv|[Pp]ars|[Ff]lags|CLI|_cli\b|click|typer|fire|hydra|tyro|docopt|[Cc]onfigur"
)


_LATE = "hotlap.late_option"


def late_option(ctx: click.Context) -> str:
    """What to say to a command that failed, and holds an option that hotlap has as well."""
    if not ctx.meta.get(_LATE):
        return ""
    verb, name = ctx.meta[_LATE]
    return f"is {name} hotlap's? Its options come before the command: hotlap {verb} {name} ... CMD"


def files(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion of the user's command: the shell's own, of file names."""
    return [CompletionItem(incomplete, type="file")]


def words_argument(name: str, metavar: str) -> Callable[[FC], FC]:
    """Everything after hotlap's own options, as typed."""
    return click.argument(
        name,
        nargs=-1,
        type=click.UNPROCESSED,
        metavar=metavar,
        callback=no_option_first,
        shell_complete=files,
    )


def command_argument(function: FC) -> FC:
    """`CMD...`: the user's command."""
    return words_argument("command", "CMD...")(function)


class Choice(click.Choice[str]):
    """One of several words; another one is refused with the word that was meant."""

    def get_invalid_choice_message(self, value: str, ctx: click.Context | None) -> str:
        """The choices, and the closest of them."""
        return f"{super().get_invalid_choice_message(value, ctx)}{question(value, self.choices)}"


def question(value: str, known: Iterable[str]) -> str:
    """The word that was meant, as a sentence after a message; else empty."""
    meant = did_you_mean(value, known, repr)
    return meant and f" D{meant[1:]}"


def _writable(_: click.Context, __: click.Parameter, folders: tuple[str, ...]) -> None:
    """Trials are started in several places: they find the directories in the environment."""
    if folders:
        already = os.environ.get("HOTLAP_WRITABLE", "")
        os.environ["HOTLAP_WRITABLE"] = os.pathsep.join(filter(None, (already, *folders)))


def json_option(function: FC) -> FC:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(
        function
    )


def quiet_option(function: FC) -> FC:
    """`--quiet`: every verb has it."""
    return click.option("-q", "--quiet", is_flag=True, help="Print the outcome alone.")(function)


def common(function: FC) -> FC:
    """Options of every verb that runs the user's command."""
    for option in (
        json_option,
        quiet_option,
        click.option("--writable", multiple=True, expose_value=False, callback=_writable,
                     type=click.Path(exists=True, file_okay=False, resolve_path=True),
                     metavar="DIR", help="A directory that trials write for real; repeatable."),
        click.option("--patience", default=120.0, show_default=True, metavar="SECONDS",
                     help="How long to wait for the first training step, or for an idle program."),
    ):  # fmt: skip
        function = option(function)
    return function


def time_span(text: str) -> float:
    """Seconds, written as `90`, `90s`, `5m`, `5min` or `1h30m`: the type of an option."""
    match = _SPAN.fullmatch(text.strip().lower())
    if match is None or not any(match.groups()):
        raise click.BadParameter(f"{text!r} is no time span; try 90s, 5m or 1h")
    parts = zip(match.groups(), _SECONDS, strict=True)
    seconds = sum(float(part) * unit for part, unit in parts if part)
    if not seconds:
        raise click.BadParameter("no time at all; try 90s, 5m or 1h")
    return seconds


def until_options(until: str, seeds: str) -> Callable[[FC], FC]:
    """The options of a race to a target, with these helps of --until and --seeds."""

    def decorate(function: FC) -> FC:
        for option in (
            click.option(
                "--metric-file",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="With --until: a CSV or JSONL file that the program writes the metric to.",
            ),
            click.option(
                "--metric-pattern",
                default="",
                metavar="REGEX",
                help="With --until: where the metric stands in the output; one group, the number.",
            ),
            click.option(
                "--seeds",
                default=5,
                show_default=True,
                type=click.IntRange(3, 100),
                help=f"With --until: {seeds}",
            ),
            click.option("--until", metavar="TARGET", help=until),
        ):
            function = option(function)
        return function

    return decorate


def wait_option(function: Callable[..., object]) -> Callable[..., object]:
    """`--wait TIME`, for a verb that races; see `wait_for_calm`."""
    return click.option(
        "--wait",
        type=time_span,
        metavar="TIME",
        help="Wait until other programs leave the cores free, at most so long, before racing.",
    )(function)


def wait_for_calm(out: "Console", seconds: float | None, *, quiet: bool) -> None:
    """Wait at most so long for the background load to fall, and say so where it does not."""
    if seconds is None:
        return
    from hotlap.trial.load import load_now, wait_until_calm

    with status(out, "waiting for the background load to fall", quiet=quiet) as update:
        calm = wait_until_calm(seconds, update)
    if not (calm or quiet):
        out.print(f"the machine is still busy after {seconds:.0f} s: {load_now()}; racing anyway")


@contextmanager
def status(out: "Console", text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Say what is being done, and for how long by now; what changes it. Nothing when quiet.

    In a pipe a line comes where it would be silent for long.
    """
    from hotlap.reporting.live_screen import LiveScreen

    name = click.get_current_context().command_path
    screen = LiveScreen(out, name, verbose=not quiet)
    screen.now(text)
    with screen.showing():
        yield screen.now


class Number(click.FloatRange):
    """A number within a range; `nan`, which lies in none, is refused as well."""

    name = "number"

    def convert(self, value: float, *about: Any) -> float:
        """Take the option's text."""
        found: float = super().convert(value, *about)
        if math.isnan(found):
            self.fail(f"{value!r} is not a number.", *about)
        return found


def console(*, err: bool = False) -> "Console":
    """A rich console; NO_COLOR is respected by rich itself.

    What goes into a pipe or a file is as wide as it needs to be, unless COLUMNS says otherwise.
    """
    from rich.console import Console

    found = Console(stderr=err, highlight=False, soft_wrap=False)
    if not found.is_terminal and "COLUMNS" not in os.environ:
        found.width = WIDE
    return found


def folder() -> Path:
    """`.hotlap/` in the working directory, kept out of version control."""
    try:
        FOLDER.mkdir(exist_ok=True)
        ignore = FOLDER / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        raise UsageError(
            f"cannot write to {FOLDER.resolve()}: {error.strerror}",
            "start it from a directory that can be written to; name the script by its full path",
        ) from None
    return FOLDER.resolve()


def only_one(ctx: click.Context) -> None:
    """Let no second verb that writes the same files work in this directory; until the verb ends.

    The lock is a POSIX record lock: no child inherits it, and it goes with this process.
    """
    file = (folder() / "lock").open("a+", encoding="utf-8")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "another hotlap"
        file.close()
        raise UsageError(
            f"{holder} works in this directory already, and both would write the same files",
            "wait for its end, or start from another directory",
        ) from None
    file.truncate(0)
    file.write(f"hotlap {ctx.info_name} (process {os.getpid()})")
    file.flush()
    ctx.call_on_close(file.close)


def stdin_copy(where: Path) -> Path | None:
    """A copy of what is piped in, for every trial to read from its start; None at a terminal.

    A pipe may stay open without end (`ssh`, a program that starts hotlap, `yes`): of that the
    trials read what has come by now.
    """
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return None
    kind = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return None
    target = where / "stdin"
    with target.open("wb") as file:
        ended = _copy(sys.stdin.fileno(), file, math.inf if stat.S_ISREG(kind) else MOST_INPUT)
    if not ended and (size := target.stat().st_size):
        say(f"hotlap: standard input goes on: each trial reads the first {size:,} bytes of it")
    return target


def _copy(source: int, target: IO[bytes], most: float) -> bool:
    """Copy what comes; False where it pauses, or goes on after so many bytes."""
    left = most
    while left > 0 and select.select([source], [], [], PAUSE_OF_INPUT)[0]:
        data = os.read(source, 1 << 20)
        if not data:
            return True
        target.write(data)
        left -= len(data)
    return False


def say(text: str, *, err: bool = True, indent: str = "") -> None:
    """Print a message; at a terminal its lines are broken between words, never within one."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        from hotlap.reporting.words import hanging

        width = console(err=err).width + 1  # `hanging` leaves the last column free
        text = "\n".join(hanging(line, width, then=indent) for line in text.split("\n"))
    click.echo(text, err=err)


def print_json(document: Mapping[str, object]) -> None:
    """One JSON document on stdout, with the keys of `headed`; places in notebooks by cell."""
    from hotlap.notebook.script import in_cells

    click.echo(json.dumps(in_cells(headed(document)), indent=2))


def headed(document: Mapping[str, object]) -> dict[str, object]:
    """A document as JSON holds it, behind what every document says of itself.

    `schema_version` changes when a key is renamed or removed. `machine` is left to documents that
    depend on it.
    """
    if "schema_version" in document:
        return dict(document)
    here = click.get_current_context(silent=True)
    head = {
        "schema_version": SCHEMA_VERSION,
        "hotlap": __version__,
        "verb": here.info_name if here else "",
        "arguments": sys.argv[1:],
    }
    return {key: plain(value) for key, value in (head | dict(document)).items()}


def plain(value: object) -> object:
    """As JSON can hold it: infinities as null, keys as strings, tuples as lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value


def names(_: click.Context, __: click.Parameter, lists: tuple[str, ...]) -> tuple[str, ...]:
    """The names of an option that may be given several times, each a list with commas."""
    return tuple(filter(None, (part.strip() for part in ",".join(lists).split(","))))
