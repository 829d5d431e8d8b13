"""One file while one move is written into it: what is known, what changes, what is left to say."""

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hotlap.source.module import Source
from hotlap.source.patch.places import Places
from hotlap.source.patch.writer import Changes
from hotlap.source.script_model import ScriptModel


@dataclass(frozen=True)
class Remark:
    """Something to do by hand, or left alone, and where (line 0: anywhere)."""

    line: int
    text: str


class UnsureError(Exception):
    """A move cannot be written safely; where, and what to do by hand."""

    def __init__(self, node: ast.AST | None, text: str) -> None:
        super().__init__(text)
        self.node = node


@dataclass
class Draft:
    """A text, its analysis, and the changes asked for.

    `entry`: it is the script that the command starts. `classes`: the classes of all the files that
    are patched together, by name, `texts` the text of each. `remarks` are for the reader;
    `fallbacks` are said when no file has a place for the technique; `already`: it is in place.
    `imports` were added.
    """

    path: Path
    text: str
    encoding: str = "utf-8"
    entry: bool = True
    classes: Mapping[str, tuple[Source, ast.ClassDef]] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    texts: Collection[str] = ()
    remarks: list[Remark] = field(default_factory=list)
    fallbacks: list[Remark] = field(default_factory=list)
    already: bool = False
    imports: set[str] = field(default_factory=set)

    @cached_property
    def source(self) -> Source:
        """The text as syntax."""
        return Source(self.path, self.text.encode(self.encoding))

    @property
    def script(self) -> ScriptModel:
        """Who is who."""
        return self.source.script

    @cached_property
    def places(self) -> Places:
        """Where things stand."""
        return Places(self.text)

    @cached_property
    def changes(self) -> Changes:
        """What is to change."""
        return Changes(self.places)

    def by_hand(self, node: ast.AST | None, text: str) -> None:
        """Say what to do by hand, and where."""
        self.remarks.append(Remark(getattr(node, "lineno", 0), text))

    def nothing_here(self, text: str, *nodes: ast.AST | None) -> None:
        """Say this, at each of these places, if no file at all has one for the technique."""
        if not self.changes and not self.remarks and not self.already:
            lines = [getattr(node, "lineno", 0) for node in nodes if node is not None] or [0]
            self.fallbacks = [Remark(line, text) for line in lines]

    def literal(self, node: ast.AST | None) -> tuple[object] | None:
        """The value of a constant expression, in a tuple; None if it is not constant."""
        try:
            return (ast.literal_eval(node),) if node is not None else None
        except (ValueError, SyntaxError, TypeError):
            return None


def code_of(value: object) -> str:
    """A value as source, strings in double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
