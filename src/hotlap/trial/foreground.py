"""Running a command in the foreground: its streams, signals and exit code stay the user's."""

import os
import queue
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress

import psutil

from hotlap.common.signals import signals_held
from hotlap.trial.channel import Channel, Message
from hotlap.trial.launch import Launched, Setting, trial_folder
from hotlap.trial.supervised import Supervised

BEFORE_TRAINING = {"hello", "torch", "before", "cell", "backward", "gone", "broken"}
OnMessage = Callable[[Message | None], bool]


def run_foreground(
    setting: Setting,
    on_message: OnMessage,
    on_left: Callable[[str], None] = lambda _: None,
    on_ending: Callable[[int], None] = lambda _: None,
) -> int:
    """Run the command; return its exit code (negative: the signal that ended it).

    In the foreground, unless its setting has it `separate`: then a signal ends hotlap, and with it
    the command.

    `on_message` sees each message of the command's processes, and None a few times a second; once
    it returns True, or raises, the command is ended. 0 is returned then. `on_left` is
    called with a process that the command left running when it came to its end: a trial's is ended.
    `on_ending` is called with a signal (one of `ENDING`) that the command gets from outside: it may
    end with 0 or 1 then, as trainers and launchers of ranks do.
    """
    with ExitStack() as ends:
        with signals_held({signal.SIGINT}):
            folder = trial_folder(setting)
            removed = ends.enter_context(ExitStack())
            removed.callback(shutil.rmtree, folder, ignore_errors=True)
            channel = Channel(folder)
            ends.callback(channel.close)
            launched = Launched(setting, channel.address, folder)
            ends.callback(launched.end)
        with nullcontext() if setting.separate else signals_passed_on(launched, on_ending):
            code = _until_over(launched, channel, on_message)
        if launched.goes_on:
            removed.pop_all()  # the folder is in use
        if launched.left:
            on_left(launched.left)
        return code


def _until_over(launched: Launched, channel: Channel, on_message: OnMessage) -> int:
    trains = False
    while True:
        code = launched.exit_code()
        try:
            message = channel.messages.get(timeout=0.05)
            trains = trains or message.type not in BEFORE_TRAINING
            if on_message(message):
                return 0
        except queue.Empty:
            launched.bound_output()
            if code is not None:
                return code
            on_message(None)
            if not trains:
                launched.check_reached()


ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
"""By these a user, a scheduler or a terminal that is closed ends a program."""
PASSED_ON = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
OF_TERMINALS = ("SIGINT", "SIGQUIT", "SIGCONT", "SIGWINCH")
"""A terminal, and the shell at it, send these to the program as well as to hotlap."""
CHILD_WAIT_S = 2.0


@contextmanager
def signals_passed_on(
    launched: Supervised, on_ending: Callable[[int], None] = lambda _: None
) -> Iterator[None]:
    """Hand the program every signal that it would have received from outside without hotlap.

    What hotlap was told to ignore (`nohup`, a shell's background jobs), the program was as well: it
    ignores what is passed on, unless it has a handler of its own.
    """

    def let_by(number: int, _: object) -> None:
        """The program has received it by itself, unless it is about to be started."""
        if number == signal.SIGINT and not _children(launched.supervisor):
            raise KeyboardInterrupt

    reached_anyway = sys.stdin is not None and sys.stdin.isatty()

    def pass_on(number: int, _: object) -> None:
        if program := _program(launched.supervisor):
            with suppress(psutil.Error):
                program.send_signal(number)

    before = {}
    for name in (*PASSED_ON, *OF_TERMINALS):
        number = getattr(signal, name)
        alone = reached_anyway and name in OF_TERMINALS
        handler = _announced(let_by if alone else pass_on, on_ending)
        before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, theirs in before.items():
            signal.signal(number, theirs)


def _announced(
    handler: Callable[[int, object], None], on_ending: Callable[[int], None]
) -> Callable[[int, object], object]:
    def call(number: int, frame: object) -> None:
        if signal.Signals(number).name in ENDING:
            on_ending(number)
        handler(number, frame)

    return call


def _program(supervisor: int) -> psutil.Process | None:
    """The command itself: the supervisor's oldest child, the others are orphans that it took in."""
    deadline = time.monotonic() + CHILD_WAIT_S
    while time.monotonic() < deadline:
        if children := _children(supervisor):
            return min(children, key=lambda child: (child.create_time(), child.pid))
        if not psutil.pid_exists(supervisor):
            return None
        time.sleep(0.01)
    return None


def _children(supervisor: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(supervisor).children()
    return []


def leave_like(code: int) -> None:
    """Leave this process as the program left: with its exit code, or by the same signal."""
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise SystemExit(code)
