"""The verbs as tools of a Model Context Protocol server, for coding agents.

Each tool runs a verb as a child process with `--json`, so that an agent gets what a person would
get, and a cancelled call ends as Ctrl-C does: the child is interrupted, ends its trials and
removes what they left.
"""

import json
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from hotlap import __version__
from hotlap.cli.common import NEGATIVE, OK, time_span

Document = dict[str, object]

PROGRESS_SECONDS = 2.0
INTERRUPT_SECONDS = 20.0
"""A verb that was interrupted is killed after this time; its supervisor then cleans up."""

INSTRUCTIONS = """\
hotlap measures PyTorch training on the machine it runs on. Before you claim that a change makes \
training faster, race it: `race` with the command before and after. `profile` says where a step \
spends its time, `tune` finds settings that are faster and keep the losses equal, `lint` reads the \
source without running it, `explain` describes a technique. A verdict of `inconclusive` means that \
nothing is known yet; give it a larger budget. Never report a ratio without its interval."""


def server() -> MCPServer[object]:
    """The server with its five tools."""
    made: MCPServer[object] = MCPServer("hotlap", instructions=INSTRUCTIONS, version=__version__)
    for tool in (profile, lint, race, tune, explain):
        made.tool(structured_output=True)(tool)
    return made


async def profile(ctx: Context, command: str, folder: str = ".", budget: str = "20s") -> Document:
    """Run a training command for a while and say where each step's time and memory go.

    `command` is typed as in a shell, such as `python train.py --lr 0.1`. `problems` were seen and
    priced by measurement; `worth_racing` are options whose effect is unknown until they are raced.
    """
    return await _Call(["profile", "--budget", budget, "--", command], folder, budget).run(ctx)


async def lint(ctx: Context, paths: list[str], folder: str = ".", hints: bool = False) -> Document:
    """Read Python source for patterns that slow training; nothing is run.

    With `hints` also patterns whose cost depends on the workload.
    """
    words = ["lint", "--format", "json", "--hints" if hints else "--no-hints", "--", *paths]
    return await _Call(words, folder).run(ctx)


async def race(
    ctx: Context, command_a: str, command_b: str, folder: str = ".", budget: str = "1m"
) -> Document:
    """Race two training commands in lockstep and say which one steps faster.

    The ratio in `estimate` is A's time over B's: above 1, B is faster. `verdict` is faster, slower,
    same or inconclusive, said of B.
    """
    words = ["race", "--budget", budget, command_a, "--", command_b]
    return await _Call(words, folder, budget).run(ctx)


async def tune(
    ctx: Context, command: str, folder: str = ".", budget: str = "5m", only: str = ""
) -> Document:
    """Race every technique that applies to a training command; keep what is proved.

    `only` names techniques, separated by commas. A confirmed recipe is written to `hotlap.toml` in
    the folder; use it with `hotlap run`.
    """
    chosen = ["--only", only] if only else []
    return await _Call(["tune", "--budget", budget, *chosen, "--", command], folder, budget).run(
        ctx
    )


async def explain(ctx: Context, technique: str) -> Document:
    """Say what a technique or lint pattern does, when it pays and what it may change."""
    return await _Call(["explain", technique]).run(ctx)


@dataclass
class _Call:
    """One verb as a child process."""

    words: list[str]
    folder: str = "."
    budget: str = ""
    last_line: str = field(default="", init=False)

    async def run(self, ctx: Context) -> Document:
        """Run it to its end and return its JSON document.

        Raises:
            ToolError: the verb failed; the message is what it said.
        """
        where = Path(self.folder).expanduser()
        if not where.is_dir():
            raise ToolError(f"{self.folder} is no folder")
        verb, *rest = self.words
        as_json = [] if verb == "lint" else ["--json"]
        process = await anyio.open_process(
            [sys.executable, "-m", "hotlap", verb, *as_json, *rest],
            cwd=where, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        out: list[bytes] = []
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._collect, process.stdout, out)
                tasks.start_soon(self._follow, process)
                await self._report_until_end(process, ctx)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
        return self._document(process.returncode or 0, b"".join(out))

    async def _collect(self, stream: ByteReceiveStream | None, out: list[bytes]) -> None:
        assert stream is not None
        out.extend([chunk async for chunk in stream])

    async def _follow(self, process: Process) -> None:
        assert process.stderr is not None
        async for chunk in process.stderr:
            lines = chunk.decode(errors="replace").strip().splitlines()
            self.last_line = lines[-1] if lines else self.last_line

    async def _report_until_end(self, process: Process, ctx: Context) -> None:
        begin = time.monotonic()
        total = time_span(self.budget) if self.budget else None
        while process.returncode is None:
            with anyio.move_on_after(PROGRESS_SECONDS):
                await process.wait()
                return
            seconds = time.monotonic() - begin
            await ctx.report_progress(seconds, total, self.last_line or f"{seconds:.0f} s")

    def _document(self, code: int, out: bytes) -> Document:
        with suppress(ValueError):
            found = json.loads(out)
            if code in (OK, NEGATIVE) and isinstance(found, dict):
                return found
        raise ToolError(self.last_line or f"hotlap ended with exit code {code}")


async def _end(process: Process) -> None:
    """End a child that still runs, as Ctrl-C would."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with anyio.move_on_after(INTERRUPT_SECONDS):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()
    await process.aclose()
