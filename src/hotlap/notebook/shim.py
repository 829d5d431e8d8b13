"""What a notebook's code expects of IPython, for the script that hotlap makes of it.

The file is copied beside the script and imported by it: it needs the standard library alone, as
the program's Python need not be hotlap's.
"""

import asyncio
import importlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import AsyncIterable, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

INSTALLERS = ("pip", "conda", "mamba", "uv", "apt", "apt-get", "python -m pip", "pip3", "sudo apt")

T = TypeVar("T")


class Shell:
    """The part of IPython's shell that a program in a notebook uses."""

    def __init__(self, names: dict[str, object], *, awaits: bool = False) -> None:
        self.user_ns = names
        self._loop: asyncio.AbstractEventLoop | None = None
        if awaits:  # cells run inside of a loop: `asyncio.create_task` finds it
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
            asyncio._set_running_loop(self._loop)

    def wait(self, value: Awaitable[T]) -> T:
        """What an `await` outside of functions does: the notebook's loop runs until it is done."""
        loop = self._loop
        assert loop is not None

        async def done() -> T:
            return await value

        asyncio._set_running_loop(None)
        try:
            return loop.run_until_complete(done())
        finally:
            asyncio._set_running_loop(loop)

    def each(self, values: AsyncIterable[T]) -> Iterator[T]:
        """What `async for` outside of functions goes through."""
        iterator = values.__aiter__()
        while True:
            try:
                value = self.wait(iterator.__anext__())
            except StopAsyncIteration:
                return
            yield value

    @contextmanager
    def entered(self, block: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """What `async with` outside of functions enters."""
        value = self.wait(block.__aenter__())
        try:
            yield value
        except BaseException as error:
            if not self.wait(block.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self.wait(block.__aexit__(None, None, None))

    def run_line_magic(self, name: str, line: str, *_: object) -> object:
        """Run a magic that has an effect on the program; the others do nothing."""
        run = getattr(self, f"_{name}", None)
        return run(self._filled(line)) if run else None

    magic = run_line_magic

    def run_cell_magic(self, name: str, line: str, body: str) -> None:
        """Run `%%bash`, `%%sh` and `%%writefile`; what only displays does nothing."""
        if name in {"bash", "sh", "script", "!"}:
            subprocess.run(["bash", "-c", body], check=name == "bash")
        elif name == "writefile":
            words = shlex.split(line)
            with open(words[-1], "a" if "-a" in words else "w", encoding="utf-8") as file:
                file.write(body)

    def system(self, line: str) -> None:
        """Run a shell line, unless it installs something."""
        command = self._filled(line)
        if command.strip().startswith(INSTALLERS):
            print(f"hotlap: not run: {command}", file=sys.stderr)
            return
        self.user_ns["_exit_code"] = subprocess.run(command, shell=True, check=False).returncode

    def getoutput(self, line: str) -> list[str]:
        """Give the lines that a shell line prints."""
        found = subprocess.run(
            self._filled(line), shell=True, check=False, text=True, stdout=subprocess.PIPE
        )
        return found.stdout.splitlines()

    def register_magic_function(self, *_: object, **__: object) -> None:
        """Take no further magics."""

    def _filled(self, line: str) -> str:
        """Put the program's values in place of `{name}` and `$name`, as IPython does."""

        def braced(found: re.Match[str]) -> str:
            try:
                return str(eval(found[1], self.user_ns))
            except Exception:
                return found[0]

        def named(found: re.Match[str]) -> str:
            return str(self.user_ns.get(found[1], found[0]))

        return re.sub(r"\$(\w+)", named, re.sub(r"\{([^{}]+)\}", braced, line))

    def _cd(self, line: str) -> None:
        os.chdir(Path(line.strip().strip("'\"") or "~").expanduser())

    def _env(self, line: str) -> str:
        name, equals, value = line.partition("=")
        if not equals:
            name, _, value = line.partition(" ")
        if value:
            os.environ[name.strip()] = value.strip()
        return os.environ.get(name.strip(), "")

    _set_env = _env

    def _run(self, line: str) -> None:
        words = shlex.split(line)
        while words and words[0].startswith("-"):
            words.pop(0)
        before, sys.argv = sys.argv, words
        try:
            self.user_ns.update(runpy.run_path(words[0], run_name="__main__"))
        finally:
            sys.argv = before


class DisplayHandle:
    """What `display(..., display_id=True)` returns: what it updates is made, and shown nowhere."""

    def __init__(self, display_id: object) -> None:
        self.display_id = display_id if isinstance(display_id, str) else f"{id(self):x}"

    def display(self, *things: object, **_: object) -> None:
        """Make what would be displayed."""
        display(*things)

    update = display


def display(*things: object, display_id: object = None, **_: object) -> DisplayHandle | None:
    """Make the pictures and texts that would be displayed: that takes as long as in a notebook."""
    for thing in things:
        _made(thing)
    return DisplayHandle(display_id) if display_id else None


def _made(thing: object) -> None:
    with suppress(Exception):  # as IPython, which goes on as well
        if callable(draw := getattr(thing, "savefig", None)):
            draw(io.BytesIO(), format="png", bbox_inches="tight")
        for form in ("_repr_html_", "_repr_png_", "_repr_svg_"):
            if callable(make := getattr(thing, form, None)):
                make()


def _show(*_: object, **__: object) -> None:
    """Draw matplotlib's open figures and close them, as a notebook's `plt.show()` does."""
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        _made(pyplot.figure(number))
    pyplot.close("all")


def _replace_shows(script: str) -> None:
    """Replace what shows things in the libraries that the notebook imports."""
    source = Path(script).read_bytes()
    with suppress(ImportError, AttributeError):
        if b"IPython" in source:
            from IPython import display as package
            from IPython.core import display_functions

            # The others of its functions find it there.
            package.display = display_functions.display = display
    with suppress(ImportError):
        if b"matplotlib" in source:
            from matplotlib import pyplot

            pyplot.show = _show


def begin(
    names: dict[str, object],
    notebook: str,
    folder: str,
    *,
    awaits: bool = False,
    measured_later: bool = False,
) -> None:
    """Make the script's module look like a notebook's namespace; work in the notebook's folder.

    `awaits`: the notebook awaits something outside of functions. `measured_later`: only the cells
    behind a call of `measured` are timed.
    """
    if measured_later:
        _tell_hotlap("waits")
    os.environ.setdefault("MPLBACKEND", "Agg")  # no window opens
    shell = Shell(names, awaits=awaits)
    names |= {"get_ipython": lambda: shell, "display": display}
    _replace_shows(str(names["__file__"]))
    os.chdir(folder)
    sys.path[0] = folder
    before, script = sys.excepthook, str(names["__file__"])

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        where = _cell_of(script, trace)
        if where:  # in front: the last line stays the error's own
            print(f"in {notebook}:{where}", file=sys.stderr)
        before(kind, error, trace)

    sys.excepthook = hook


def measured() -> None:
    """Here begins what is timed, where hotlap runs the script."""
    _tell_hotlap("begins")


def _tell_hotlap(what: str) -> None:
    """Tell it of the cell that is timed, if it has reached this process."""
    if "hotlap.seam.session" in sys.modules:
        getattr(importlib.import_module("hotlap.seam.cell").CELL, what)()


def _cell_of(script: str, trace: TracebackType | None) -> str:
    """Name the cell and line at which an error left the script."""
    line = 0
    while trace:
        if trace.tb_frame.f_code.co_filename == script:
            line = trace.tb_lineno
        trace = trace.tb_next
    with open(script, encoding="utf-8") as file:
        lines = file.read().split("\n")[: max(0, line - 1)]
    for above, text in enumerate(reversed(lines), 1):
        if text.startswith("# %% code cell "):
            return f"cell {text.split()[-1]}:{above}"
    return ""
