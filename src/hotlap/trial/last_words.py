"""What a program said before it failed: its own last line, not its launcher's."""

import re
import signal
import socket
import sys
from pathlib import Path

ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):.*?rank\s*: (\d+).*?exitcode\s*: (-?\d+)", re.DOTALL
)
NO_TORCH = "No module named 'torch'"
UNREACHED = re.compile(
    r"network addresses of \(.*\) cannot be retrieved"
    r"|Unable to (?:find|resolve) (?:address|hostname)"
    r"|Name or service not known|Temporary failure in name resolution"
)


def last_words(output: Path | None) -> str:
    """The last line that a program wrote to its kept output; empty if nothing was kept.

    Where torchrun says which rank failed first, that rank's own last line.
    """
    if output is None or not output.exists():
        return ""
    written = output.read_text(errors="replace")
    causes = list(ROOT_CAUSE.finditer(written))
    if causes and not _goes_on(written[causes[-1].end() :]):
        rank, code = (int(part) for part in causes[-1].groups())
        return f"rank {rank} {_of_rank(written, rank) or _how_it_ended(code)}"
    return _last_line(written)


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
    return f"was killed by {signal.Signals(-code).name} (exit code {code})"


def _last_line(written: str) -> str:
    lines = written.strip().splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def advice(output: Path | None) -> str:
    """What helps a command whose Python has no torch, or ranks that find no other; else empty."""
    if output is None or not output.exists():
        return ""
    text = output.read_text(errors="replace")[-20_000:]
    if NO_TORCH in text:
        return (
            "the Python of the command is not that of your environment: activate it, or give its "
            f"interpreter in the command (hotlap runs in {sys.executable})"
        )
    if not UNREACHED.search(text):
        return ""
    name = socket.gethostname()
    return (
        f"the ranks look for each other by this machine's name, {name}; where that leads nowhere, "
        "give torchrun --local-addr 127.0.0.1 and set GLOO_SOCKET_IFNAME=lo"
    )
