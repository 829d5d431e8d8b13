"""Lines that a change made too long for their file, broken as black and ruff would break them."""

import ast
from collections.abc import Sequence
from typing import Any

import libcst as cst

from hotlap.source.patch.places import Places
from hotlap.source.patch.writer import Changes

_NONE = cst.SimpleWhitespace("")


def fitted(before: str, after: str) -> str:
    """The text after a change with its new long lines broken, where a call or a tuple allows it."""
    was, now = Places(before), Places(after)
    old, changes = set(map(str.strip, was.lines)), Changes(now)
    for statement in ast.walk(ast.parse(after)):
        value = getattr(statement, "value", None)
        if not isinstance(statement, ast.stmt) or not isinstance(value, ast.Call | ast.Tuple):
            continue
        lines = now.lines[statement.lineno - 1 : statement.end_lineno]
        if any(len(line) > was.width and line.strip() not in old for line in lines):
            _break(changes, value, now, was.width)
    return changes.rendered() if changes else after


def _break(changes: Changes, value: ast.Call | ast.Tuple, places: Places, width: int) -> None:
    before, after = places.before(value), places.after(value)
    indent = cst.parse_module(places.text).default_indent

    def change(node: cst.Call | cst.Tuple) -> cst.Call | cst.Tuple:
        if "#" in cst.Module([]).code_for_node(node):
            return node
        if isinstance(node, cst.Tuple):
            return _tuple(node, indent)
        hugged = _call(node, indent, one_a_line=False)
        if _width(hugged, before, after) <= width:
            return hugged
        return _call(node, indent, one_a_line=True)

    changes.expression(value, change)


def _width(node: cst.CSTNode, before: str, after: str) -> int:
    """The longest line that an expression takes, with what stands before and after it."""
    lines = cst.Module([]).code_for_node(node).split("\n")
    indent = len(before) - len(before.lstrip())
    ends = (len(before) + len(lines[0]), indent + len(lines[-1]) + len(after))
    return max(*ends, *(indent + len(line) for line in lines[1:]))


def _call(call: cst.Call, indent: str, *, one_a_line: bool) -> cst.Call:
    """All arguments on one line of their own, or one a line."""
    if not call.args:
        return call
    args = [
        a.with_changes(whitespace_after_arg=_NONE)
        for a in _parted(call.args, indent, one_a_line=one_a_line)
    ]
    if not one_a_line:
        args[-1] = args[-1].with_changes(whitespace_after_arg=new_line(""))
    return call.with_changes(args=args, whitespace_before_args=new_line(indent))


def _tuple(pair: cst.Tuple, indent: str) -> cst.Tuple:
    """One element a line, in parentheses of its own."""
    return pair.with_changes(
        elements=_parted(pair.elements, indent, one_a_line=True),
        lpar=[cst.LeftParen(whitespace_after=new_line(indent))],
        rpar=[cst.RightParen()],
    )


def _parted(items: Sequence[Any], indent: str, *, one_a_line: bool) -> list[Any]:
    """Arguments or elements with commas between them, and behind the last if it ends a line."""
    between = new_line(indent) if one_a_line else cst.SimpleWhitespace(" ")
    made = [item.with_changes(comma=cst.Comma(whitespace_after=between)) for item in items]
    last = cst.Comma(whitespace_after=new_line("")) if one_a_line else cst.MaybeSentinel.DEFAULT
    return [*made[:-1], made[-1].with_changes(comma=last)]


def new_line(indent: str) -> cst.ParenthesizedWhitespace:
    """A line break inside parentheses."""
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(indent))
