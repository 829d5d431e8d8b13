"""A command below its supervisor: started, waited for, ended with everything it left behind."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from hotlap.common.disk import free_all_but_the_end

MOST_OUTPUT, KEPT_OUTPUT = 64 << 20, 4 << 20
"""Bytes of a program's output up to which all of it is kept, and how many of a longer one."""
SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Streams(NamedTuple):
    """The file that a command reads, and the one for both its outputs; None: ours."""

    stdin: Path | None = None
    output: Path | None = None


class Supervised:
    """A running command; nothing of it outlives this process or a call of `end`.

    But with `leaves` for what still runs when the command has come to its own end: `left` shows one
    of these processes.

    Args:
        command: as it is run.
        env: its whole environment.
        folder: takes the supervisor's orders.
        separate: a process group and terminal session of its own; then with `stdin` or none.
        streams: the files that it reads and writes; None: they stay ours.
        tidy: further folders to remove should this process be killed.
        isolation: the `layout` of a namespace to enter, or the `writable` paths of Landlock.
    """

    leaves = False
    """Whether what the command leaves running goes on, and uses `folder` until its end."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        folder: Path,
        *,
        separate: bool = False,
        streams: Streams | None = None,
        tidy: Sequence[Path] = (),
        isolation: Mapping[str, object] | None = None,
    ) -> None:
        orders = {
            "command": list(command),
            "env": dict(env),
            "cwd": str(Path.cwd()),
            "separate": separate,
            "tidy": [str(folder), *map(str, tidy)],
            "isolation": dict(isolation or {}),
            "leaves": self.leaves,
        }
        self.left = ""
        self._output = streams.output if streams else None
        (folder / "launch.json").write_text(json.dumps(orders))
        # A file, so that it closes, and the supervisor ends all, should this object get lost.
        life_theirs, life = os.pipe()
        self._life = open(life, "wb", buffering=0)  # noqa: SIM115
        self._report, report_theirs = os.pipe()
        self._code: int | None = None
        fds = life_theirs, report_theirs
        self._supervisor = _supervisor(folder, fds, _opened(separate, streams or Streams()))
        os.close(life_theirs)
        os.close(report_theirs)

    @property
    def supervisor(self) -> int:
        """The pid below which everything of the command lives."""
        return self._supervisor.pid

    def bound_output(self) -> None:
        """Keep of a very long output the end: it is read for what a program said last."""
        if self._output is not None:
            free_all_but_the_end(self._output, MOST_OUTPUT, KEPT_OUTPUT)

    def exit_code(self, timeout: float | None = 0.0) -> int | None:
        """The command's exit code (negative: the signal that ended it); None while it runs."""
        if self._code is None:
            ready, _, _ = select.select([self._report], [], [], timeout)
            if ready:
                code, _, self.left = (
                    os.read(self._report, 4096).decode(errors="replace").partition("\n")
                )
                self._code = int(code or -9)
        return self._code

    @property
    def goes_on(self) -> bool:
        """Whether the command has ended, and what it left running goes on."""
        return self.leaves and bool(self.left)

    def end(self) -> None:
        """End it: closing the pipe makes the supervisor kill everything below it."""
        if not self._life.closed:
            self._life.close()
            if not self.goes_on:
                self._supervisor.wait()
            os.close(self._report)
            if self._code is None:
                self._code = -9


def _opened(separate: bool, files: Streams) -> dict[str, IO[bytes]]:
    streams: dict[str, IO[bytes]] = {}
    if files.output is not None:
        streams["stdout"] = streams["stderr"] = files.output.open("ab")
    if separate:
        streams["stdin"] = (files.stdin or Path(os.devnull)).open("rb")
    return streams


def _supervisor(
    folder: Path, fds: tuple[int, int], streams: dict[str, IO[bytes]]
) -> "subprocess.Popen[bytes]":
    life, report = fds
    arguments = (
        sys.executable, "-E", str(SUPERVISOR), str(folder / "launch.json"), str(life), str(report),
    )  # fmt: skip
    try:
        return subprocess.Popen(arguments, pass_fds=fds, **streams)  # type: ignore[call-overload,no-any-return]
    finally:
        for stream in {id(s): s for s in streams.values()}.values():
            stream.close()
