"""Places in a text: from `ast` (bytes) to libcst (characters), and the lines around them."""

import ast
import re
from dataclasses import dataclass
from functools import cached_property

Place = tuple[int, int]
Span = tuple[Place, Place]
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Places:
    """Lines of one text, and where a syntax node stands in them."""

    text: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends, as Python counts them."""
        return _LINE_END.split(self.text)

    def start(self, node: ast.AST) -> Place:
        """Line (from 1) and character (from 0) at which a node begins."""
        return self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def span(self, node: ast.AST) -> Span:
        """Where a node begins and ends."""
        end = self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return self.start(node), end

    def code(self, node: ast.AST) -> str:
        """The source of an expression, on one line."""
        return ast.unparse(node)

    def before(self, node: ast.AST) -> str:
        """What stands on the line before a node."""
        line, column = self.start(node)
        return self.lines[line - 1][:column]

    def after(self, node: ast.AST) -> str:
        """What stands on the line after a node, comments left out."""
        line, column = self.span(node)[1]
        return self.lines[line - 1][column:].partition("#")[0].rstrip()

    @cached_property
    def width(self) -> int:
        """How long this file's lines may be: as its longest, between 88 and 120."""
        return min(120, max(88, max(map(len, self.lines), default=0)))

    def _place(self, line: int, column: int) -> Place:
        return line, len(self.lines[line - 1].encode()[:column].decode())
