"""How far hotlap got into a command, and what the program said: for the message when it failed."""

import math
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from hotlap.common.disk import end_of
from hotlap.common.signals import signal_name
from hotlap.core.errors import HotlapError, NotReachedError, TrialFailedError
from hotlap.isolation.refusals import refusal_hint
from hotlap.notebook.script import notebook_of
from hotlap.trial.channel import Message

STEPS = {"step", "block", "profile"}
LIBRARY = "libtorch_python"
LOOK_SECONDS = 1.0
ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):.*?rank\s*: (\d+).*?exitcode\s*: (-?\d+)", re.DOTALL
)
FRAME = re.compile(r'(?m)^ +File "([^"<]+)", line (\d+)')
OTHERS_CODE = re.compile(r"/(site|dist)-packages/|/lib/python\d|/hotlap/")
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Warning)\b(: |$)")
PROGRESS = re.compile(r"\d+%\||\d+(?:it|batch|step)s? \[\d\d:\d\d")
"""A progress bar of tqdm's, which is drawn once more as the program fails."""
TORCH_WARNING = re.compile(r"(\[rank\d+\]:)?\[[IW]\d{4} ")
"""How a line begins that torch's C++ code logs; it may come after the error, of another rank."""
PORT_TAKEN = re.compile(r"\bEADDRINUSE\b|\[Errno 98\]")
NEEDS_FREE_PORT = (
    "a race runs the command twice at a time, and both sides want the same port: where the ranks "
    "are all on one node each side has a MASTER_PORT of its own; any other port has to be a free "
    "one, which port 0 gives"
)
TRACEBACK_CHARACTERS = 20_000
OUTPUT_CHARACTERS = 1_000_000
NO_TORCH = "No module named 'torch'"
OTHER_PYTHON = (
    "the Python of the command is not that of your environment: activate it, or give its "
    "interpreter in the command (hotlap runs in {})"
)
NO_IPYTHON = "name 'get_ipython' is not defined"
ASKS_IPYTHON = re.compile(r"^get_ipython\(\)\.", re.MULTILINE)
EXPORTED = (
    "`get_ipython` exists in IPython alone, and the script was exported from a notebook: give the "
    "notebook itself (NOTEBOOK.ipynb in the place of `python SCRIPT`), or `ipython SCRIPT`"
)
NO_RANK = re.compile(
    r"environment variable (?:RANK|WORLD_SIZE|MASTER_\w+) expected"
    r"|KeyError: '(?:LOCAL_)?(?:RANK|WORLD_SIZE)'"
)
ASKS_RANK = re.compile(r"\binit_process_group\(|\benviron\[[\"'](?:LOCAL_)?(?:RANK|WORLD_SIZE)\b")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "mpirun", "srun", "torch.distributed")
RANKS = (
    "the program expects a launcher to give it a rank: give `torchrun --nproc_per_node 2 SCRIPT` "
    "in the place of `python SCRIPT`"
)
UNREACHED = re.compile(
    r"network addresses of \(.*\) cannot be retrieved"
    r"|Unable to (?:find|resolve) (?:address|hostname)"
    r"|Name or service not known|Temporary failure in name resolution"
)
LOOPBACK = (
    "the ranks look for each other by this machine's name, {}; where that leads nowhere, give "
    "torchrun --local-addr 127.0.0.1 and set GLOO_SOCKET_IFNAME=lo"
)
TIME_LIMIT = re.compile(
    r"time[ds]?[ -]?out|queue\.(Empty|Full)\b|watchdog|deadline|time limit|heartbeat|stalled"
    r"|\bhangs?\b|\bhung\b|no (step|progress)\b",
    re.IGNORECASE,
)
"""How a program says that something took it longer than it allows."""
STOOD = (
    "a race stops the program between two blocks of steps, and its clocks go on meanwhile: if that "
    "is a time limit of its own, raise it or turn it off for the race"
)


class OtherStepsError(HotlapError):
    """The command is to be started again, since what its steps are has been seen now."""

    def __init__(self, *, inference: bool) -> None:
        super().__init__("the program computes gradients after all" if not inference else "no step")
        self.inference = inference


class Reach:
    """Remembers which kinds of messages came, and when to lose patience (seconds).

    `output` is where the program's words are kept, if they are; `scratch` takes its trials' writes.
    `command` is the program's.
    """

    def __init__(
        self,
        patience: float,
        output: Path | None = None,
        scratch: Path | None = None,
        command: Sequence[str] = (),
    ) -> None:
        self.patience = patience
        self._output = output
        self._scratch = scratch
        self._command = command
        self._seen: set[str] = set()
        self._left = ""
        self._deadline = time.monotonic() + patience

    def paused(self, seconds: float) -> None:
        """The program stood still for so long: that time does not count."""
        self._deadline += seconds

    def leaves(self, process: str) -> None:
        """The command has ended, and left this process running (empty: none)."""
        self._left = process

    def see(self, message: Message | None) -> None:
        """Take a message in; None is a tick of the clock.

        Raises:
            NotReachedError: patience is over and no step was seen.
            TrialFailedError: hotlap could not start inside the process.
        """
        if message is not None:
            self._seen.add(message.type)
            if message.type == "before":  # earlier cells take what they take
                self._deadline = math.inf
            if message.type == "cell":
                self._deadline = time.monotonic() + self.patience
            if message.type == "trains":
                raise OtherStepsError(inference=False)
            if message.type == "broken":
                raise TrialFailedError(f"a technique could not start: {message.fields['error']}")
        if not self._seen & STEPS and time.monotonic() > self._deadline:
            longer = "; --patience gives it more time"
            raise self._not_reached(f"within {self.patience:.0f} s", longer)

    def failure(self, code: int) -> HotlapError:
        """Why a program that has ended gave nothing to time, or no more."""
        if code:
            early = "" if "backward" in self._seen else " before its first training step"
            words = last_words(self._output) or f"the program {_how_it_ended(code)}{early}"
            hint = refusal_hint(self._output, self._scratch) or advice(self._output)
            if early and not hint and self._output is None:
                hint = _advice_by_source(self._command)
            if "block" in self._seen and TIME_LIMIT.search(words):
                hint = hint or STOOD
            return TrialFailedError(words, hint or self._where())
        if "calls" in self._seen and "backward" not in self._seen:
            return OtherStepsError(inference=True)
        return self._not_reached("before the program ended")

    def stands_still(self, step: int) -> HotlapError:
        """The program waits for something that does not come, behind that step."""
        return TrialFailedError(
            f"the program stands still behind step {step}: for {self.patience:.0f} s it ended no "
            "block of steps and used next to no CPU time",
            "`hotlap launch CMD` says where each rank stands; --patience waits longer",
        )

    def _where(self) -> str:
        return f"its output is in {self._output}" if self._output is not None else ""

    def _not_reached(self, when: str, longer: str = "") -> NotReachedError:
        """What was seen instead of a step; `longer`: what to do where it could still have come."""
        if "hello" not in self._seen:
            what = "no Python process with torch was seen"
            hint = (
                "does the script import torch? `python -S` keeps hotlap out; without the overlay "
                "tier `python -I`, `-E` and cleared environments do as well"
            )
        elif "backward" not in self._seen:
            what = "torch was imported, but no backward pass was seen"
            hint = f"is this the training command?{longer}"
        else:
            what = "a backward pass was seen, but no step of a torch optimizer"
            hint = (
                "steps of torch.optim.Optimizer are counted, or backward passes where there is no "
                f"optimizer{longer}"
            )
        if "cell" in self._seen:
            what += "; what earlier cells train does not count"
        if self._left:
            hint = (
                f"the command left {self._left} running, which was ended with it: "
                "keep the training in the foreground"
            )
        hint = advice(self._output) or hint
        return NotReachedError(f"no training step {when}: {what}", hint)


class UnreachedCheck:
    """Looks at the processes below a supervisor, at most once a second.

    `reached` is the folder in which each process that hotlap reached leaves a file named
    by its pid. It is unreached if two looks find none: a process that was just forked has not left
    its file yet, and the folder is removed while the last processes end.
    """

    def __init__(self, supervisor: int, reached: Path) -> None:
        self._supervisor = supervisor
        self._reached = reached
        self._next = 0.0
        self._suspects: set[int] = set()

    def look(self) -> None:
        """End the wait for a first step that cannot come.

        Raises:
            NotReachedError: a Python process loaded torch without hotlap.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LOOK_SECONDS
        try:
            below = psutil.Process(self._supervisor).children(recursive=True)
        except psutil.Error:
            return
        before, self._suspects = self._suspects, set()
        for process in filter(self._is_unreached, below):
            self._suspects.add(process.pid)
            if process.pid in before:
                raise NotReachedError(
                    f"process {process.pid} trains without hotlap: {_shown(process)}",
                    "`python -S`, or a Python with no site-packages of its own, keeps hotlap out: "
                    "start it in another way",
                )

    def _is_unreached(self, process: psutil.Process) -> bool:
        """A forked process (a loader's worker) shows the command line of the one it came from."""
        try:
            if (self._reached / str(process.pid)).exists() or not _has_torch(process.pid):
                return False
            if not self._reached.exists():
                return False
            words, parent = process.cmdline(), process.parent()
            while parent is not None and parent.cmdline() == words:
                if (self._reached / str(parent.pid)).exists():
                    return False
                parent = parent.parent()
        except (psutil.Error, OSError):
            return False
        return True


def _has_torch(pid: int) -> bool:
    return LIBRARY in Path(f"/proc/{pid}/maps").read_text(errors="replace")


def _shown(process: psutil.Process) -> str:
    try:
        return " ".join(" ".join(process.cmdline()).split())[:120]
    except psutil.Error:
        return "it has ended"


def last_words(output: Path | None) -> str:
    """The last line that a program wrote to its kept output; empty if nothing was kept.

    Where torchrun says which rank failed first, that rank's own last line.
    """
    if output is None:
        return ""
    written = end_of(output, OUTPUT_CHARACTERS)
    causes = list(ROOT_CAUSE.finditer(written))
    if causes and not _goes_on(written[causes[-1].end() :]):
        rank, code = (int(part) for part in causes[-1].groups())
        return f"rank {rank} {_of_rank(written, rank) or _how_it_ended(code)}"
    return f"{_last_line(written)}{_raised_at(written)}"


def _raised_at(written: str) -> str:
    """Where the user's own code raised what a traceback at the end says: ` (train.py:12)`."""
    end = written.rstrip()[-TRACEBACK_CHARACTERS:]
    frames = [f for f in FRAME.finditer(end) if not OTHERS_CODE.search(f[1])]
    if not frames or not EXCEPTION.match(_last_line(end)):
        return ""
    path = Path(frames[-1][1])
    here = Path.cwd()
    name = path.relative_to(here) if path.is_relative_to(here) else path
    return f" ({name}:{frames[-1][2]})"


def _goes_on(rest: str) -> bool:
    """Whether something was written behind torchrun's report, which a line of `=` ends."""
    _, _, after = rest.partition("====")
    return bool(after.strip("=\n "))


def _of_rank(written: str, rank: int) -> str:
    """What the rank's own exception said; torch marks its lines."""
    mark = f"[rank{rank}]: "
    lines = [line for line in written.splitlines() if line.startswith(mark)]
    plain = [line.removeprefix(mark) for line in lines]
    said = next((line for line in reversed(plain) if line and not line.startswith(" ")), "")
    return f"failed: {said}" if said and not said.startswith("Traceback") else ""


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal_name(-code)} (exit code {code})"


def _last_line(written: str) -> str:
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    own = (
        line for line in reversed(lines) if not (TORCH_WARNING.match(line) or PROGRESS.search(line))
    )
    return next(own, lines[-1] if lines else "")


def _advice_by_source(command: Sequence[str]) -> str:
    """What may help a command that failed early, where nobody kept what it said; else empty.

    Plain Python runs a script with the magics of the notebook that it was made of, or one whose
    ranks a launcher starts; or it is the Python of another environment.
    """
    scripts = [Path(word) for word in command if word.endswith(".py") and not notebook_of(word)]
    written = [path.read_text("utf-8", "replace") for path in scripts if path.is_file()]
    words = " ".join(command)
    if any(map(ASKS_IPYTHON.search, written)) and "ipython" not in Path(command[0]).name:
        return EXPORTED
    if any(map(ASKS_RANK.search, written)) and not any(name in words for name in LAUNCHERS):
        return "" if "RANK" in os.environ else f"if it says that a rank is missing: {RANKS}"
    if _is_other_python(command):
        return f"if it says that a module is missing: {OTHER_PYTHON.format(sys.executable)}"
    return ""


def _is_other_python(command: Sequence[str]) -> bool:
    """Whether the command's Python is that of another environment than hotlap's."""
    found = shutil.which(command[0]) if command else None
    if found is None or not Path(found).name.startswith("python"):
        return False
    return Path(found).parent.resolve() != Path(sys.executable).parent.resolve()


def advice(output: Path | None) -> str:
    """What helps a command whose end has a known cause; else empty.

    Its Python has no torch, it is a notebook's export, its port is taken, it has no rank, or its
    ranks find no other.
    """
    if output is None:
        return ""
    text, words = end_of(output, TRACEBACK_CHARACTERS), last_words(output)
    known = (
        (NO_TORCH in text, OTHER_PYTHON.format(sys.executable)),
        (NO_IPYTHON in text, EXPORTED),
        (PORT_TAKEN.search(words), NEEDS_FREE_PORT),  # the program may have gone on without it
        (NO_RANK.search(words), RANKS),
        (UNREACHED.search(text), LOOPBACK.format(socket.gethostname())),
    )
    return next((says for seen, says in known if seen), "")
