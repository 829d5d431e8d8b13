"""Starting a command as a trial: its folder, its environment, its supervisor."""

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotlap.common import heap
from hotlap.core.protocol import Document
from hotlap.core.registry import technique
from hotlap.core.spec import REACHED, VARIABLE, Mode, Spec, Tier
from hotlap.isolation.folders import remove_tree, temporary_folder
from hotlap.isolation.reach_files import reach_files
from hotlap.isolation.refusals import disk_full
from hotlap.isolation.tiers import Isolation, isolation
from hotlap.seam.moves import environment
from hotlap.trial.reach import UnreachedCheck
from hotlap.trial.supervised import Streams, Supervised

BOOT = Path(__file__).parent.parent / "seam" / "boot"
NO_MONITOR = ("TORCH_NCCL_ENABLE_MONITORING", "0")
"""NCCL's monitor would take a rank that stood stopped for long for one that hangs."""
PASSIVE_WAIT = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
"""OpenMP threads (GNU's and Intel's) sleep while they wait for one another, rather than spin."""
STEADY_HEAP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
"""glibc's malloc keeps what is freed, and maps no block apart (mallopt(3))."""
_ASLEEP = (
    "with OpenMP threads that sleep while they wait "
    f"({', '.join(f'{name}={value}' for name, value in PASSIVE_WAIT.items())}), since other "
    "programs used the cores"
)
_SLEPT = (
    f"{{}} ran {_ASLEEP}, for a time at least; without these variables a thread that waits keeps "
    "its core busy (it spins), and steps may take longer"
)
SLEEPING_THREADS = _SLEPT.format("both sides")
"""What is said of a race with `PASSIVE_WAIT`."""
SLEEPING_IN_PROFILE = _SLEPT.format("the program")
"""What is said of a profile with it."""
SLEEPING_WHEN_TUNED = f"it was tuned {_ASLEEP}; without these variables the gain may be another"
"""What is said of a recipe that was measured with it."""
SLEEPING_IN_SEARCH = _SLEPT.format("all batch sizes")
"""What is said of a search for the batch size with it."""
SLEEPING_IN_MOST = _SLEPT.format("all races but that of sleeping_threads")
"""What is said of the races of a tune, where that technique is raced as well, or may be."""
THREADING = re.compile(r"(?<![\w-])((?:OMP|KMP|GOMP|MKL)_\w+)=([^\s'\";]*)")
"""An assignment of a variable that sets how OpenMP and MKL compute, in the words of a command."""
ALLOCATOR = re.compile(r"(?<![\w-])(?:MALLOC_\w+|GLIBC_TUNABLES|LD_PRELOAD)(?==|$)")
"""A variable that says how memory is allocated, in the words of a command or by its name."""
Techniques = Mapping[str, Document]


@dataclass(frozen=True)
class Setting:
    """How a command is to be run; one setting serves many trials.

    `scratch` is the folder that takes the program's writes (None: they go where they go).
    `separate` gives the trial a process group and terminal session of its own. `passive_wait` sets
    `PASSIVE_WAIT`, where the user has not set the like, `steady_heap` `STEADY_HEAP`.
    """

    command: tuple[str, ...]
    mode: Mode
    techniques: Techniques = field(default_factory=dict)
    options: Document = field(default_factory=dict)
    seed: int | None = None
    scratch: Path | None = None
    separate: bool = True
    output: Path | None = None
    stdin: Path | None = None
    passive_wait: bool = False
    steady_heap: bool = False

    def perturbed(self) -> "Setting":
        """The same command, its parameters nudged once by rounding: see `seam.perturb`."""
        return replace(self, options={**self.options, "perturb": True})

    def counting(self, *, inference: bool) -> "Setting":
        """The same command, its steps known to be root calls, or known not to be."""
        return replace(self, options={**self.options, "inference": inference})

    def having(self, techniques: Techniques) -> "Setting":
        """The same command with other techniques on."""
        return replace(self, techniques=dict(techniques))


def spin(threads: int) -> bool:
    """Whether so many threads spin while they wait for one another, as the user runs the script."""
    return threads > 1 and "OMP_WAIT_POLICY" not in os.environ


def threading_variables(setting: Setting) -> dict[str, str]:
    """The variables of OpenMP and MKL that a command and its techniques set themselves."""
    found = dict(THREADING.findall(" ".join(setting.command)))
    for name, values in setting.techniques.items():
        moved = environment(technique(name).moves, dict(values))
        found |= {key: value for key, value in moved.items() if THREADING.match(f"{key}=")}
    return found


def allocator_set(*settings: Setting) -> bool:
    """Whether the user or a command says how memory is allocated, or malloc is not glibc's."""
    words = [*os.environ, *(" ".join(setting.command) for setting in settings)]
    return not heap.available() or any(map(ALLOCATOR.search, words))


def trial_folder(setting: Setting) -> Path:
    """Make the folder of one trial; what lies below its `scratch` bears the same name."""
    return temporary_folder("hotlap-", *([setting.scratch] if setting.scratch else []))


class Launched(Supervised):
    """A running command below its supervisor."""

    def __init__(self, setting: Setting, control: str, folder: Path) -> None:
        if setting.scratch is not None:  # every trial finds the user's files as they are
            setting = replace(setting, scratch=setting.scratch / folder.name)
        self.scratch = setting.scratch
        self.isolation = isolation(setting.scratch.parent) if setting.scratch else None
        env = child_environment(setting, folder / "spec.json")
        (folder / REACHED).mkdir()
        limits = _limits(self.isolation, setting, folder, env)
        if "writable" in limits and tempfile.gettempdir() not in limits["writable"]:
            (folder / "tmp").mkdir()  # the project lies in the temporary folder, which is refused
            env["TMPDIR"] = str(folder / "tmp")
        spec = _spec(setting, control, folder, self.isolation)
        spec.write(folder / "spec.json")
        self.leaves = setting.mode is Mode.RUN
        super().__init__(
            setting.command,
            env,
            folder,
            separate=setting.separate,
            streams=Streams(setting.stdin, setting.output),
            tidy=[self.scratch] if self.scratch else [],
            isolation=limits,
        )
        self._unreached = UnreachedCheck(self.supervisor, folder / REACHED)

    def check_reached(self) -> None:
        """Look whether a process of a trial trains where hotlap cannot see it.

        Raises:
            NotReachedError: one does, so that its first step will never be reported.
        """
        if self.scratch is not None:
            self._unreached.look()

    def end(self) -> None:
        """End the trial, and remove what it wrote."""
        super().end()
        if self.scratch is not None:
            remove_tree(self.scratch)


def _limits(
    how: Isolation | None, setting: Setting, folder: Path, env: Mapping[str, str]
) -> Document:
    """What the supervisor does to the trial's first process before it starts the command."""
    scratch = setting.scratch
    if how is None or scratch is None:
        return {}
    full = disk_full(how, scratch.parent)
    if how.tier is Tier.OVERLAY:
        files = reach_files(setting.command, BOOT, env, os.environ)
        layout = how.layout(scratch, folder, files).to_json()
        return {"layout": layout, "space": (layout["layers"], full)}
    scratch.mkdir(parents=True)
    if how.tier is Tier.LANDLOCK:
        return {
            "writable": how.writable_paths(scratch, folder),
            "space": (str(scratch), full),
        }
    return {"space": (str(scratch), full)}


def _spec(setting: Setting, control: str, folder: Path, how: Isolation | None) -> Spec:
    return Spec(
        trial=folder.name,
        mode=setting.mode,
        control=control,
        techniques={name: dict(values) for name, values in setting.techniques.items()},
        seed=setting.seed,
        scratch=str(setting.scratch or ""),
        tier=how.tier if how else Tier.OFF,
        keep=(str(folder), *(how.writable if how else ())),
        cover=how.cover() if how else (),
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
    if setting.mode in {Mode.RACE, Mode.BATCH}:
        env.setdefault(*NO_MONITOR)
    if setting.passive_wait:
        env = {**PASSIVE_WAIT, **env}
    if setting.steady_heap:
        env = {**STEADY_HEAP, **env}
    for name, values in setting.techniques.items():
        env.update(environment(technique(name).moves, dict(values)))
    if setting.scratch is not None:
        from hotlap.seam.guard import tracker_environment

        env.update(tracker_environment(str(setting.scratch)))
    return env
