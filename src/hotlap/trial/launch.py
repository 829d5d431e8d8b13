"""Starting a command as a trial: its folder, its environment, its warden."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hotlap.core.registry import technique
from hotlap.core.spec import VARIABLE, Mode, Spec
from hotlap.seam.moves import environment
from hotlap.trial.warded import Warded

BOOT = Path(__file__).parent.parent / "seam" / "boot"
NO_MONITOR = ("TORCH_NCCL_ENABLE_MONITORING", "0")
"""NCCL's monitor would take a rank that stood stopped for long for one that hangs."""
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


class Launched(Warded):
    """A running command below its warden."""

    def __init__(self, setting: Setting, control: str, folder: Path) -> None:
        if setting.scratch is not None:  # every trial finds the user's files as they are
            setting = replace(setting, scratch=setting.scratch / folder.name)
        self.scratch = setting.scratch
        spec = _spec(setting, control, folder)
        spec.write(folder / "spec.json")
        super().__init__(
            setting.command,
            child_environment(setting, folder / "spec.json"),
            folder,
            separate=setting.separate,
            output=setting.output,
            stdin=setting.stdin,
            tidy=[self.scratch] if self.scratch else [],
        )

    def end(self) -> None:
        """End the trial, and remove what it wrote."""
        super().end()
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


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


def reaching(env: Mapping[str, str]) -> dict[str, str]:
    """An environment in which every Python below imports our `sitecustomize`."""
    path = [str(BOOT), *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    return {**env, "PYTHONPATH": os.pathsep.join(path)}


def child_environment(setting: Setting, spec: Path) -> dict[str, str]:
    """The environment that reaches every Python below the command."""
    env = reaching(os.environ)
    env[VARIABLE] = str(spec)
    if setting.mode is Mode.RACE:
        env.setdefault(*NO_MONITOR)
    for name, values in setting.techniques.items():
        env.update(environment(technique(name).moves, dict(values)))
    if setting.scratch is not None:
        from hotlap.seam.guard import tracker_environment

        env.update(tracker_environment(str(setting.scratch)))
    return env
