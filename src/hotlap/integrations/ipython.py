"""`%load_ext hotlap`: profile a cell in the live kernel, race and tune it in fresh processes.

A profile needs the kernel's own objects, and disturbs nothing: it is taken there. A race needs two
processes that can be stopped and started again: they run the cells that this session has run, in
the order in which it ran them, and then the cell.
"""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hotlap.core.errors import HotlapError, did_you_mean
from hotlap.integrations.live import COLUMNS, LiveProfile, profiling
from hotlap.integrations.session_cells import behind, preparing, without_unused
from hotlap.integrations.session_script import SessionScript, session_script
from hotlap.notebook.script import MEASURED, PARTS, SESSION, in_cells, with_texts, write_script
from hotlap.reporting.html import card

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult

USAGE = """usage:
%%hotlap profile                 profile this cell in this kernel
%%hotlap race [--budget 1m]      race the two halves of this cell, parted by a line `# --`
%%hotlap tune [--budget 5m]      tune this cell, behind the cells run so far
%hotlap VERB ...                 any command line of hotlap, such as %hotlap lint ."""
ON_CELLS = ("profile", "race", "tune")
HERE = Path(".hotlap")
_PARTED = re.compile(r"^# --+\s*$", re.MULTILINE)
_HALVES = {name: part for name, part in PARTS.items() if name != "tune"}
_PLACE = re.compile(
    r"(?:\S*python\S* )?(?P<path>[^\s\"'`()\[\]]*\.hotlap/session-(?P<name>\w+)\.ipynb)"
    r"(?::cell\s+(?P<cell>\d+))?"
)
_SAME_CELL = re.compile(r"hotlap race (.*?) first half -- second half")
_COLOURS = ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "TTY_COMPATIBLE")
_PROGRESS = re.compile(r"^hotlap: .*\n", re.MULTILINE)
_REPORT = re.compile(r"^report: (.+)\.html$", re.MULTILINE)


def load(shell: Any) -> None:
    """Register the magic with a shell of IPython."""
    magics = Magics(shell)
    shell.register_magic_function(magics.hotlap, "line_cell", "hotlap")
    shell.events.register("post_run_cell", magics.after_cell)


class Magics:
    """The magic, and which cells of the session failed."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._failed: set[int] = set()

    def after_cell(self, result: "ExecutionResult") -> None:
        """Remember a cell that ended with an error: it is left out of a race.

        What a profile runs inside of its cell is no cell of the session.
        """
        if not result.success and result.info and result.info.store_history:
            self._failed.add(self._shell.execution_count - 1)

    def hotlap(self, line: str, cell: str | None = None) -> "LiveProfile | Card":
        """Run one of hotlap's verbs on a cell; what it found becomes a card.

        Without a cell the line is a command line of hotlap.
        """
        verb, *options = line.split() or [""]
        if cell is None:
            return self._on_line(verb, options)
        if verb == "profile":
            why = self._no_profile(options, cell)
            return _refused(why) if why else self._profile(cell)
        if verb == "race":
            return self._race(options, cell)
        if verb == "tune":
            path, numbers = self._notebook("tune", cell, (cell,))
            return _run([verb, *options, path], lambda text: _in_session(text, {"tune": numbers}))
        return _refused(_not_on_cells(verb))

    def _on_line(self, verb: str, options: list[str]) -> "Card":
        if verb in ON_CELLS and (not options or "(" in options[0]):  # code, and no command
            return _refused(f"%hotlap {verb} needs a cell: write %%hotlap {verb} as its first line")
        if not verb:
            return _refused("no verb was given")
        return _run([verb, *options], str)

    def _no_profile(self, options: Sequence[str], cell: str) -> str:
        """Why a cell cannot be profiled in this kernel; empty if it can."""
        if options:
            return f"%%hotlap profile takes no options, and was given {' '.join(options)}"
        try:
            python = self._shell.transform_cell(cell)
        except SyntaxError:
            return ""  # running the cell shows it
        if not self._shell.should_run_async(cell, transformed_cell=python):
            return ""
        return (
            "a cell that awaits outside of functions cannot be profiled by the magic; write its "
            "lines into `with hotlap.profiling():` instead"
        )

    def _profile(self, cell: str) -> LiveProfile:
        """Profile a cell.

        Raises:
            CellFailedError: the cell ended with an error; what was seen until then is shown.
        """
        script, numbers = self._as_script(cell)
        with profiling(show=False, placed=script.placed) as found:
            ran = self._shell.run_cell(cell)

        def renamed(text: str) -> str:
            return _in_session(text, {"profile": numbers})

        found.profile = with_texts(in_cells(found.profile), renamed)
        if ran.success:
            return found
        from IPython.display import display

        display(found)  # type: ignore[no-untyped-call]
        raise CellFailedError(type(ran.error_before_exec or ran.error_in_exec).__name__)

    def _as_script(self, cell: str) -> tuple[SessionScript, list[int]]:
        """A script of this cell and those that it stands on, and the numbers of its cells.

        Without one, where a cell is not Python or nothing can be written, no source is judged.
        """
        this = len(self._shell.history_manager.input_hist_raw) - 1
        numbers = {source: number for number, source in behind(self._ran(), cell)} | {cell: this}
        ran = dict(sorted(numbers.items(), key=lambda entry: entry[1]))
        compiler = self._shell.compile
        try:
            script = write_script(Path(self._write("profile", without_unused(list(ran)))))
            found = session_script(script, ran, lambda text: compiler.get_code_name(text, text, 0))
        except (HotlapError, OSError, AttributeError, ValueError):
            return SessionScript(Path(), {}), []
        return found, list(ran.values())

    def _race(self, options: list[str], cell: str) -> "Card":
        parts = _PARTED.split(cell)
        if len(parts) != 2:
            several = f"{len(parts) - 1} lines" if len(parts) > 2 else "no line"
            return _refused(f"the cell has {several} `# --`; one parts it into two halves")
        (a, in_a), (b, in_b) = (
            self._notebook(name, part, parts) for name, part in zip(_HALVES, parts, strict=True)
        )
        numbers = {"a": in_a, "b": in_b}
        return _run(["race", *options, a, "--", b], lambda text: _in_session(text, numbers))

    def _notebook(self, name: str, cell: str, parts: Sequence[str]) -> tuple[str, list[int]]:
        """A notebook of what was run before the parts of a cell and one part; numbers of those."""
        before = preparing(self._ran(), parts)
        sources = [*(source for _, source in before), cell.strip("\n")]
        path = self._write(name, sources, {MEASURED: len(sources)})
        return path, [number for number, _ in before]

    def _ran(self) -> list[tuple[int, str]]:
        """The cells that this session has run without an error, with their numbers."""
        history = self._shell.history_manager.input_hist_raw
        return [
            (number, source)
            for number, source in enumerate(history[:-1])
            if number and number not in self._failed
        ]

    def _write(self, name: str, sources: Sequence[str], about: Mapping[str, object] = {}) -> str:
        """Write a notebook of these cells; its path. `about`: more for its metadata."""
        document = {
            "cells": [
                {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [],
                 "source": source}
                for source in sources
            ],
            "metadata": {SESSION: self._folder(), **about},
            "nbformat": 4,
            "nbformat_minor": 5,
        }  # fmt: skip
        HERE.mkdir(exist_ok=True)
        path = HERE / f"session-{name}.ipynb"
        path.write_text(json.dumps(document), "utf-8")
        return str(path)

    def _folder(self) -> str:
        """Where the session began: the cells are run there again, those with `%cd` among them."""
        been = self._shell.user_ns.get("_dh")
        return str(been[0] if been else Path.cwd())


class CellFailedError(Exception):
    """A profiled cell ended with this kind of error: the cells below it are not to run."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it: the cell's own traceback has been shown."""
        return [f"hotlap: the cell ended with {self}, as shown above"]


class Card:
    """What a verb found, shown by the notebook as HTML; `document` is its JSON, `text` as plain."""

    def __init__(self, document: dict[str, object], text: str) -> None:
        self.document = document
        self.text = text

    def _repr_html_(self) -> str:
        return card(self.document)

    def __repr__(self) -> str:
        return self.text


def _refused(why: str) -> Card:
    text = f"hotlap: {why}\n{USAGE}"
    return Card({"verb": "error", "text": text}, text)


def _not_on_cells(verb: str) -> str:
    """Why a word is no verb for a cell, with the one that was meant."""
    if not verb:
        return "no verb was given"
    meant = did_you_mean(verb, ON_CELLS, repr)
    return f"there is no verb {verb!r} for a cell{'; ' if meant else ''}{meant}"


def _in_session(text: str, numbers: dict[str, list[int]]) -> str:
    """The text with places in a session's notebook as those of the cells as they were run."""

    def named(found: re.Match[str]) -> str:
        name, cell = found["name"], found["cell"]
        if cell is None:
            return _HALVES.get(name, found["path"])
        known = numbers.get(name, [])
        if int(cell) <= len(known):
            return f"In [{known[int(cell) - 1]}]"
        return _HALVES.get(name, "this cell")

    return _PLACE.sub(named, text)


def _plain_environment() -> dict[str, str]:
    """The environment for a child whose text is kept: a kernel's own asks for colours."""
    found = {name: value for name, value in os.environ.items() if name not in _COLOURS}
    return found | {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}


def _run(words: list[str], renamed: Callable[[str], str]) -> Card:
    """Run a command line as a child; an interrupt of the cell is passed on, so that it tidies up.

    What goes on is shown below the cell meanwhile. The card is made of the report that the child
    leaves, and of what it prints.
    """
    from IPython.display import display

    child = subprocess.Popen(
        [sys.executable, "-m", "hotlap", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_plain_environment(),
    )
    shown = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    out, err = followed(child, lambda line: shown.update({"text/plain": renamed(line)}, raw=True))
    shown.update({"text/plain": ""}, raw=True)
    report = _REPORT.search(err) or _REPORT.search(out)
    if words[0] in ON_CELLS:
        out = _PROGRESS.sub("", out)
    if report is None:  # the lines before the error describe the run
        begins = err.rfind("hotlap: ") if words[0] in ON_CELLS else err.find("hotlap: ")
        why = err[max(0, begins) :].strip()
        text = renamed("\n".join(filter(None, (out.strip("\n"), why))) or "interrupted")
        return Card({"verb": "error", "text": text}, text)
    document = json.loads(Path(f"{report[1]}.json").read_text("utf-8"))
    if words[0] == "race":
        document["commands"] = [[" ".join(command)] for command in document["commands"]]
    text = renamed(out.strip("\n") or err.strip())
    return Card(with_texts(document, renamed), _SAME_CELL.sub(r"%%hotlap race \1", text))


def followed(child: "subprocess.Popen[str]", show: Callable[[str], object]) -> tuple[str, str]:
    """What a child prints on stdout and stderr; each line of progress is shown as it comes."""
    lines: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    for at, stream in enumerate((child.stdout, child.stderr)):
        threading.Thread(target=_read, args=(at, stream, lines), daemon=True).start()
    texts: tuple[list[str], list[str]] = ([], [])
    running = len(texts)
    while running:
        try:
            at, line = lines.get()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            continue
        running -= not line
        texts[at].append(line)
        if line.startswith("hotlap: "):
            show(line.rstrip())
    child.wait()
    return "".join(texts[0]), "".join(texts[1])


def _read(at: int, stream: IO[str], lines: "queue.SimpleQueue[tuple[int, str]]") -> None:
    """Hand on the lines of a stream, then an empty one."""
    for line in stream:
        lines.put((at, line))
    lines.put((at, ""))
