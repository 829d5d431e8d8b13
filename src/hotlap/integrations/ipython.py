"""`%load_ext hotlap`: profile a cell in the live kernel, race and tune it in fresh processes.

A profile needs the kernel's own objects, and disturbs nothing: it is taken there. A race needs two
processes that can be stopped and started again: they run the cells that this session has run, in
the order in which it ran them, and then the cell.
"""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotlap.integrations.live import LiveProfile, profiling
from hotlap.notebook.script import with_texts
from hotlap.reporting.html import card

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult

USAGE = """usage:
%%hotlap profile                 profile this cell in this kernel
%%hotlap race [--budget 1m]      race the two halves of this cell, parted by a line `# --`
%%hotlap tune [--budget 5m]      tune the cells run so far together with this one"""
HERE = Path(".hotlap")
_KERNEL_FILE = re.compile(r"[^\s:]*/ipykernel_\d+/\d+\.py")
_PARTED = re.compile(r"^# --+\s*$", re.MULTILINE)


def load(shell: Any) -> None:
    """Register the cell magic with a shell of IPython."""
    magics = Magics(shell)
    shell.register_magic_function(magics.hotlap, "cell", "hotlap")
    shell.events.register("post_run_cell", magics.after_cell)


class Magics:
    """The cell magic, and which cells of the session failed."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._failed: set[int] = set()

    def after_cell(self, result: "ExecutionResult") -> None:
        """Remember a cell that ended with an error: it is left out of a race."""
        if not result.success:
            self._failed.add(self._shell.execution_count - 1)

    def hotlap(self, line: str, cell: str) -> "LiveProfile | Card":
        """Run one of hotlap's verbs on a cell; what it found becomes a card."""
        verb, *options = line.split() or [""]
        if verb == "profile":
            with profiling(show=False) as found:
                self._shell.run_cell(cell)
            found.profile = with_texts(found.profile, self._by_cell)
            return found
        if verb == "race":
            parts = _PARTED.split(cell)
            if len(parts) == 2:
                first, second = (
                    self._notebook(name, part) for name, part in zip("ab", parts, strict=True)
                )
                return _run("race", [*options, "--json", first, "--", second])
        if verb == "tune":
            return _run("tune", [*options, "--json", self._notebook("tune", cell)])
        return Card({"verb": "error", "text": USAGE})

    def _by_cell(self, text: str) -> str:
        """The text with the kernel's temporary files as the cells that they stand for."""
        numbers = getattr(self._shell.compile, "_filename_map", {})

        def named(found: re.Match[str]) -> str:
            number = numbers.get(found[0])
            return f"In [{number}]" if number else "this cell"

        return _KERNEL_FILE.sub(named, text)

    def _notebook(self, name: str, cell: str) -> str:
        """A notebook of the cells run so far and one more."""
        history = self._shell.history_manager.input_hist_raw
        before = [
            source
            for number, source in enumerate(history[:-1])
            if number and number not in self._failed
            and not source.lstrip().startswith(("%%hotlap race", "%%hotlap tune"))
        ]  # fmt: skip
        document = {
            "cells": [
                {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [],
                 "source": source}
                for source in (*before, cell.strip("\n"))
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }  # fmt: skip
        HERE.mkdir(exist_ok=True)
        path = HERE / f"session-{name}.ipynb"
        path.write_text(json.dumps(document), "utf-8")
        return str(path)


class Card:
    """What a verb found, shown by the notebook as HTML; `document` is its JSON."""

    def __init__(self, document: dict[str, object]) -> None:
        self.document = document

    def _repr_html_(self) -> str:
        return card(self.document)

    def __repr__(self) -> str:
        return str(self.document.get("headline") or self.document.get("text") or self.document)


def _run(verb: str, words: list[str]) -> Card:
    """Run a verb as a child; an interrupt of the cell is passed on, so that it tidies up."""
    child = subprocess.Popen(
        [sys.executable, "-m", "hotlap", verb, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = child.communicate()
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        out, err = child.communicate()
    try:
        return Card(json.loads(out))
    except ValueError:
        return Card({"verb": "error", "text": err.strip() or "interrupted"})
