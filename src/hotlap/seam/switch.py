"""Techniques that are switched on and off between two steps of a live process.

A race that switches them compares a process with itself, so that nothing of what two processes of
one program differ by is in its figure. Only what a step makes anew may be switched: autocast, an
operator, the optimizer's kernel. What is built once (a loader, a compiled model) or lives on in the
layout of memory (channels last) has to be there from the first step on.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from hotlap.seam.roots import Roots

Values = dict[str, object]
Apply = Callable[[str, Values, ExitStack], None]


class Switch:
    """What is switched on in this process beside the techniques that it was started with."""

    def __init__(self, roots: Roots, apply: Apply) -> None:
        self._roots = roots
        self._apply = apply
        self._on: dict[str, Values] = {}
        self._undo = ExitStack()

    def to(self, techniques: Mapping[str, Values]) -> None:
        """Have these on from the next step on, and no others; nothing where they are already."""
        if techniques == self._on:
            return
        self._undo.close()
        self._undo = ExitStack()
        self._on = dict(techniques)
        if techniques:
            self._undo.enter_context(self._roots.more())
            for name, values in techniques.items():
                self._apply(name, values, self._undo)
        self._roots.wrap_again()
