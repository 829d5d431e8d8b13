"""Running a command in the foreground: its streams, signals and exit code stay the user's."""

import os
import queue
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil

from hotlap.trial.channel import Channel, Message
from hotlap.trial.launch import Launched, Setting
from hotlap.trial.warded import Warded

BEFORE_TRAINING = {"hello", "torch", "backward", "gone", "broken"}
OnMessage = Callable[[Message | None], bool]


def attend(setting: Setting, on_message: OnMessage) -> int:
    """Run the command; return its exit code (negative: the signal that ended it).

    In the foreground, unless its setting has it `separate`: then a signal ends hotlap, and with it
    the command.

    `on_message` sees each message of the command's processes, and None a few times a second; once
    it returns True, or raises, the command is ended. 0 is returned then.
    """
    folder = Path(tempfile.mkdtemp(prefix="hotlap-"))
    channel = Channel(folder)
    try:
        launched = Launched(setting, channel.address, folder)
        try:
            with nullcontext() if setting.separate else signals_passed_on(launched):
                return _until_over(launched, channel, on_message)
        finally:
            launched.end()
    finally:
        channel.close()
        shutil.rmtree(folder, ignore_errors=True)


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
            if code is not None:
                return code
            on_message(None)
            if not trains:
                launched.check_reached()


@contextmanager
def signals_passed_on(launched: Warded) -> Iterator[None]:
    """Hand signals to the program; a Ctrl-C at a terminal has reached it by itself."""

    def pass_on(number: int, _: Any) -> None:
        for process in psutil.Process(launched.warden).children():
            process.send_signal(number)

    handlers: dict[int, Any] = {signal.SIGINT: signal.SIG_IGN if sys.stdin.isatty() else pass_on}
    handlers |= dict.fromkeys((signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1), pass_on)
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_like(code: int) -> None:
    """Leave this process as the program left: with its exit code, or by the same signal."""
    if code < 0:
        number = signal.Signals(-code)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    raise SystemExit(code)
