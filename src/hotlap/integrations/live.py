"""Profile a part of a live process: a loop in a notebook, a service, a trainer's run."""

import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hotlap.core.errors import NotReachedError, UsageError
from hotlap.core.protocol import ProfilePayload
from hotlap.profile.model import Profile

SPINNING = (
    "`hotlap profile` of a command lets its threads sleep while other programs use the cores, so "
    "that its shares differ from these; the threads of a live process stay as they are"
)
_KERNEL_FILE = re.compile(r"[^\s:]*/ipykernel_\d+/\d+\.py")
T = TypeVar("T")
COLUMNS = 100
"""Width of the text that is shown where HTML is not."""


class LiveProfile:
    """What `profiling` gives: the profile, once its block is left."""

    def __init__(self) -> None:
        self.profile: Profile | None = None
        self.problem = ""

    def document(self) -> dict[str, object]:
        """The profile as plain data, as `hotlap profile --json` prints it.

        Raises:
            NotReachedError: there is none, and why.
        """
        if self.profile is None:
            raise NotReachedError(self.problem or "the block is still running", "")
        from hotlap.cli.common import headed

        return headed(self.profile.to_json() | {"verb": "profile"})

    def save(self, path: Path | str) -> None:
        """Write the document; `hotlap compare` and `hotlap lint --profile` read it."""
        Path(path).write_text(json.dumps(self.document(), indent=2), "utf-8")

    def show(self) -> None:
        """Print the profile to stderr, as `hotlap profile` does."""
        from hotlap.cli.common import console
        from hotlap.reporting import profile_text

        out = console(err=True)
        out.print()  # a progress bar of the program's may have left its line open
        if self.profile is None:
            out.print(f"hotlap: {self.problem}", markup=False)
        else:
            profile_text.show(out, self.profile)

    def __repr__(self) -> str:
        from rich.console import Console

        from hotlap.reporting import profile_text

        if self.profile is None:
            return self.problem or "the block is still running"
        written = io.StringIO()
        out = Console(
            file=written, width=COLUMNS, highlight=False, color_system=None, force_jupyter=False
        )
        profile_text.show(out, self.profile)
        return "\n".join(line.rstrip() for line in written.getvalue().splitlines())

    def _repr_html_(self) -> str:
        from hotlap.reporting.html import card

        return card(self.document() if self.profile else {"verb": "error", "text": self.problem})


def _as_it_is(payload: ProfilePayload) -> ProfilePayload:
    return payload


@contextmanager
def profiling(
    *, show: bool = True, placed: Callable[[ProfilePayload], ProfilePayload] = _as_it_is
) -> Iterator[LiveProfile]:
    """Profile the training steps, or calls of a model, that this block runs.

    The first steps warm up; from about 30 steps on the profile is of use. The loader, the model and
    the optimizer may exist already. Nothing of hotlap stays when the block is left. `show`: print
    the profile then. `placed` gives what was seen other places, before its source is read.

    Raises:
        UsageError: this process is profiled already.
    """
    from hotlap.core.spec import Mode, Spec
    from hotlap.seam.local import LocalSession
    from hotlap.trial.load import OtherPrograms

    if LocalSession.current is not None:
        raise UsageError("this process is profiled already", "end the outer block first")
    found, began, others = LiveProfile(), time.time(), OtherPrograms()
    with LocalSession(Spec("live", Mode.PROFILE, "")) as session:
        yield found
    busy = others.cores()
    payload = session.payload
    _take(found, placed(payload) if payload else None, session.problem, began)
    if found.profile is not None:
        from hotlap.reporting.profile_text import under_load

        found.profile = _spinning(under_load(found.profile, busy))
    if show and _in_ipython():
        from IPython.display import display

        display(found)  # type: ignore[no-untyped-call]
    elif show:
        found.show()


def _take(found: LiveProfile, payload: ProfilePayload | None, problem: str, began: float) -> None:
    from hotlap.core.machine import detect
    from hotlap.profile.collect import Circumstances, profile_from
    from hotlap.trial.command import THIS_CELL

    if payload:
        run = Circumstances(began, command=THIS_CELL if _in_ipython() else "")
        found.profile = _by_cell(profile_from(payload, detect(), None, run))
    else:
        found.problem = problem or "too few training steps were seen to profile them"


def _spinning(profile: Profile) -> Profile:
    """The profile with a note where threads spin, which those of a profiled command would not."""
    if not profile.facts.get("contended_threads"):
        return profile
    return replace(profile, notes=(*profile.notes, SPINNING))


def _in_ipython() -> bool:
    """Whether this is a session of IPython, where the program is a cell and has no command."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def _by_cell(value: T) -> T:
    """The value with the kernel's temporary files, in all of its texts, as the cells they are."""
    if not _in_ipython():
        return value
    from hotlap.notebook.script import with_texts

    shell = sys.modules["IPython"].get_ipython()
    numbers = getattr(shell.compile, "_filename_map", {})

    def named(found: re.Match[str]) -> str:
        number = numbers.get(found[0])
        return f"In [{number}]" if number else "this cell"

    renamed: T = with_texts(value, lambda text: _KERNEL_FILE.sub(named, text))
    return renamed
