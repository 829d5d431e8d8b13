"""What a check may yield besides a syntax node: one that is spread over statements, or a hint."""

import ast
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A pattern that `node` shows, and whose work begins at the expression `since`.

    Everything between the two is counted as its cost; `node` alone is pointed at. `hint`: whether
    it costs anything here is not known, though the pattern's cost usually is.
    """

    node: ast.AST
    since: ast.AST
    detail: str = ""
    hint: bool = False


Found = ast.AST | tuple[ast.AST, str] | Spread
"""A node; a node and what to say of it; or a node and where its work begins."""


def told(found: Found) -> Spread:
    """The same in one shape."""
    if isinstance(found, Spread):
        return found
    node, detail = found if isinstance(found, tuple) else (found, "")
    return Spread(node, node, detail)
