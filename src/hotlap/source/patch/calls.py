"""Arguments added to calls or changed in them, in the layout the call has."""

import ast
from typing import Any

import libcst as cst

from hotlap.source.patch.draft import Draft

NEW_LINE = "\n"


def add_argument(draft: Draft, call: ast.Call, name: str, code: str) -> None:
    """Add `name=code` as the last argument (before `**options`); without a name, `code` alone."""
    argument = _keyword(name, code) if name else cst.Arg(cst.parse_expression(code))
    change_call(draft, call, lambda node: _added(node, argument))


def replace_argument(draft: Draft, call: ast.Call, old: ast.expr, code: str) -> None:
    """Put `code` in the place of the argument `old`."""
    index = [*call.args, *(entry.value for entry in call.keywords)].index(old)
    value = cst.parse_expression(code)

    def change(node: Any) -> Any:
        args = list(node.args)
        args[index] = args[index].with_changes(value=value)
        return node.with_changes(args=args)

    change_call(draft, call, change)


def change_call(draft: Draft, call: ast.Call, change: Any) -> None:
    """Change a call; where it grows too long for the file, one argument a line."""
    before, after = draft.places.before(call), draft.places.after(call)
    width, indent = draft.places.width, cst.parse_module(draft.text).default_indent
    alone = not before.strip() or before.rstrip().endswith("=")

    def fitted(node: Any) -> Any:
        changed = change(node)
        if not alone or _width(changed, before, after) <= width:
            return changed
        hugged = _reflowed(changed, indent, one_a_line=False)
        if _width(hugged, before, after) <= width:
            return hugged
        return _reflowed(changed, indent, one_a_line=True)

    draft.changes.expression(call, fitted)


def _width(call: Any, before: str, after: str) -> int:
    """The longest line that a call takes, with what stands before and after it."""
    lines = cst.Module([]).code_for_node(call).split(NEW_LINE)
    indent = len(before) - len(before.lstrip())
    if len(lines) == 1:
        return len(before) + len(lines[0]) + len(after)
    ends = (len(before) + len(lines[0]), indent + len(lines[-1]) + len(after))
    return max(*ends, *(indent + len(line) for line in lines[1:]))


def _keyword(name: str, code: str) -> cst.Arg:
    none = cst.SimpleWhitespace("")
    return cst.Arg(
        cst.parse_expression(code), cst.Name(name), equal=cst.AssignEqual(none, none)
    )  # fmt: skip


def _added(call: Any, argument: cst.Arg) -> Any:
    args = list(call.args)
    at = next((i for i, a in enumerate(args) if a.star == "**"), len(args))
    if at < len(args):
        args.insert(at, argument.with_changes(comma=_comma(call, args)))
        return call.with_changes(args=args)
    if not args:
        return call.with_changes(args=[argument])
    last = args[-1]
    own, rest = _parted(_trailing(last))
    args[-1] = last.with_changes(comma=_led(_comma(call, args), own), whitespace_after_arg=_NONE)
    trailing = isinstance(last.comma, cst.Comma)
    end = {"comma": last.comma.with_changes(whitespace_after=rest)} if trailing else {
        "whitespace_after_arg": rest}  # fmt: skip
    return call.with_changes(args=[*args, argument.with_changes(**end)])


def _trailing(argument: Any) -> Any:
    """The space between the last argument and the closing parenthesis."""
    if isinstance(argument.comma, cst.Comma):
        return argument.comma.whitespace_after
    return argument.whitespace_after_arg


def _parted(space: Any) -> tuple[Any, Any]:
    """The comment on the last argument's own line, and the space without it."""
    if not isinstance(space, cst.ParenthesizedWhitespace) or space.first_line.comment is None:
        return None, space
    bare = space.first_line.with_changes(comment=None, whitespace=_NONE)
    return space.first_line, space.with_changes(first_line=bare)


def _led(comma: cst.Comma, first_line: Any) -> cst.Comma:
    """The comma with a comment behind it."""
    if first_line is None:
        return comma
    space: Any = comma.whitespace_after
    if not isinstance(space, cst.ParenthesizedWhitespace):
        space = _new_line("    ")
    return comma.with_changes(whitespace_after=space.with_changes(first_line=first_line))


_NONE = cst.SimpleWhitespace("")


def _comma(call: Any, args: list[Any]) -> cst.Comma:
    """A comma as those between the arguments; with a single one, as the space before it."""
    if len(args) > 1 and isinstance(args[-2].comma, cst.Comma):
        space = args[-2].comma.whitespace_after
        plain = not (isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment)
        if plain:
            return cst.Comma(whitespace_after=space)
    if isinstance(args[-1].comma, cst.Comma) and isinstance(
        call.whitespace_before_args, cst.ParenthesizedWhitespace
    ):
        return cst.Comma(whitespace_after=call.whitespace_before_args)
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _reflowed(call: Any, indent: str, *, one_a_line: bool) -> Any:
    """Black's layouts of a long call: all arguments on one line of their own, or one a line."""
    if "#" in cst.Module([]).code_for_node(call):
        return call
    between = _new_line(indent) if one_a_line else cst.SimpleWhitespace(" ")
    args = [
        a.with_changes(comma=cst.Comma(whitespace_after=between), whitespace_after_arg=_NONE)
        for a in call.args
    ]
    end = {"comma": cst.Comma(whitespace_after=_new_line(""))} if one_a_line else {
        "comma": cst.MaybeSentinel.DEFAULT, "whitespace_after_arg": _new_line("")}  # fmt: skip
    args[-1] = args[-1].with_changes(**end)
    return call.with_changes(args=args, whitespace_before_args=_new_line(indent))


def _new_line(indent: str) -> cst.ParenthesizedWhitespace:
    return cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(indent))
