"""Starting a command as a trial: its folder, its environment, its warden."""

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from hotlap.core.registry import technique
from hotlap.core.spec import VARIABLE, Mode, Spec
from hotlap.seam.moves import environment

BOOT = Path(__file__).parent.parent / "seam" / "boot"
WARDEN = Path(__file__).with_name("warden.py")
Techniques = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Setting:
    """How a command is to be run; one setting serves many trials.

    `scratch` is the folder that takes the program's writes (None: they go where they go).
    `separate` gives the trial a process group and terminal session of its own.
    """

    command: tuple[str, ...]
    mode: Mode
    techniques: Techniques = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    scratch: Path | None = None
    separate: bool = True
    output: Path | None = None
    stdin: Path | None = None

    def having(self, techniques: Techniques) -> "Setting":
        """The same command with other techniques on."""
        return replace(self, techniques=dict(techniques))


class Launched:
    """A running command below its warden."""

    def __init__(self, setting: Setting, control: str, folder: Path) -> None:
        if setting.scratch is not None:  # every trial finds the user's files as they are
            setting = replace(setting, scratch=setting.scratch / folder.name)
        self.scratch = setting.scratch
        spec = _spec(setting, control, folder)
        spec.write(folder / "spec.json")
        launch = {
            "command": setting.command,
            "env": child_environment(setting, folder / "spec.json"),
            "cwd": str(Path.cwd()),
            "separate": setting.separate,
            "tidy": [str(folder), *([str(self.scratch)] if self.scratch else [])],
        }
        (folder / "launch.json").write_text(json.dumps(launch))
        life_theirs, self._life = os.pipe()
        self._report, report_theirs = os.pipe()
        self._code: int | None = None
        self._warden = _warden(setting, folder, life_theirs, report_theirs)
        os.close(life_theirs)
        os.close(report_theirs)

    @property
    def warden(self) -> int:
        """The pid below which everything of the trial lives."""
        return self._warden.pid

    def exit_code(self, timeout: float | None = 0.0) -> int | None:
        """The command's exit code (negative: the signal that ended it); None while it runs."""
        if self._code is None:
            ready, _, _ = select.select([self._report], [], [], timeout)
            if ready:
                self._code = int(os.read(self._report, 16) or b"-9")
        return self._code

    def end(self) -> None:
        """End the trial: closing the pipe makes the warden kill everything below it."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
            self._warden.wait()
            os.close(self._report)
            if self.scratch is not None:
                shutil.rmtree(self.scratch, ignore_errors=True)
            if self._code is None:
                self._code = -9


def _spec(setting: Setting, control: str, folder: Path) -> Spec:
    return Spec(
        trial=folder.name,
        mode=setting.mode,
        control=control,
        techniques={name: dict(values) for name, values in setting.techniques.items()},
        seed=setting.seed,
        scratch=str(setting.scratch or ""),
        keep=(str(folder),),
        cover=(str(Path.cwd()),),
        options=dict(setting.options),
    )


def child_environment(setting: Setting, spec: Path) -> dict[str, str]:
    """The environment that reaches every Python below the command."""
    env = dict(os.environ)
    env[VARIABLE] = str(spec)
    path = [str(BOOT), *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    env["PYTHONPATH"] = os.pathsep.join(path)
    for name, values in setting.techniques.items():
        env.update(environment(technique(name).moves, dict(values)))
    if setting.scratch is not None:
        from hotlap.seam.guard import tracker_environment

        env.update(tracker_environment(str(setting.scratch)))
    return env


def _warden(setting: Setting, folder: Path, life: int, report: int) -> "subprocess.Popen[bytes]":
    arguments: Sequence[str] = (
        sys.executable,
        "-E",
        str(WARDEN),
        str(folder / "launch.json"),
        str(life),
        str(report),
    )
    streams: dict[str, IO[bytes] | None] = {}
    if setting.output is not None:
        streams["stdout"] = streams["stderr"] = setting.output.open("ab")
    if setting.separate:
        streams["stdin"] = (setting.stdin or Path(os.devnull)).open("rb")
    try:
        return subprocess.Popen(arguments, pass_fds=(life, report), **streams)  # type: ignore[call-overload,no-any-return]
    finally:
        for stream in {id(s): s for s in streams.values() if s}.values():
            stream.close()
