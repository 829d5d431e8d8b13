"""Keeps a trial's hands off the user's files: a copy-on-write view at the level of Python.

What the script writes goes to a mirror of the tree below the trial's scratch folder, and
what it reads is looked for there first. All state is on disk, so that all processes of a
trial see the same. Only the standard library is used here.

It serves machines that allow no overlay. Not covered: programs that are not Python, native code
that opens paths itself and is not in `native_table`, and `_io` or `posix` called directly. Landlock
refuses these writes; without it the parent names the changed files (`isolation.tree_diff`).
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType

from hotlap.seam.guard.natives import natives
from hotlap.seam.guard.overlay import Overlay
from hotlap.seam.guard.patches import patched
from hotlap.seam.guard.roots import Roots, default_keep, first_folder
from hotlap.seam.guard.trackers import tracker_environment

__all__ = ["Guard", "default_keep", "install", "tracker_environment"]


class Guard:
    """An installed guard; `undo`, or leaving it as a context, takes it away."""

    def __init__(self, overlay: Overlay, undo: ExitStack) -> None:
        self.overlay = overlay
        self._undo = undo

    def undo(self) -> None:
        """Put every function back."""
        self._undo.close()

    def __enter__(self) -> "Guard":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()


def install(
    scratch: str | os.PathLike[str],
    keep: Iterable[str | os.PathLike[str]] = (),
    cover: Iterable[str | os.PathLike[str]] | None = None,
) -> Guard:
    """Redirect writes outside of the kept roots into `scratch`, for this whole process.

    `keep` are folders that are written for real, besides `default_keep()`; `cover` are
    folders guarded although they lie below a kept one, such as a project in the temp dir
    (if None: the folder that the trial's first process started in). The longest root that
    holds a path decides. The guard stays until `undo`, whether or not it is held.
    """
    folder = os.path.realpath(scratch)
    os.makedirs(folder, exist_ok=True)
    kept = [os.path.realpath(root) for root in (*default_keep(), *keep, folder)]
    covered = first_folder(folder, kept) if cover is None else [os.fspath(root) for root in cover]
    roots = Roots(kept, covered)
    overlay = Overlay(folder, roots)
    with ExitStack() as undo:
        undo.enter_context(patched(overlay))
        undo.enter_context(natives(overlay))
        undo.enter_context(_no_bytecode())
        guard = Guard(overlay, undo.pop_all())
    # Generators behind the stack would undo it all when they are collected.
    _installed.append(guard)
    return guard


_installed: list[Guard] = []


@contextmanager
def _no_bytecode() -> Iterator[None]:
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before
