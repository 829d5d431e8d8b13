"""Arguments added to calls or changed in them, in the layout the call has."""

import ast

import libcst as cst

from hotlap.source.patch.draft import Draft
from hotlap.source.patch.layout import new_line


def add_argument(draft: Draft, call: ast.Call, name: str, code: str) -> None:
    """Add `name=code` as the last argument (before `**options`); without a name, `code` alone."""
    argument = _keyword(name, code) if name else cst.Arg(cst.parse_expression(code))
    draft.changes.expression(call, lambda node: _added(node, argument))


def replace_argument(draft: Draft, call: ast.Call, old: ast.expr, code: str) -> None:
    """Put `code` in the place of the argument `old`."""
    index = [*call.args, *(entry.value for entry in call.keywords)].index(old)
    value = cst.parse_expression(code)

    def change(node: cst.Call) -> cst.Call:
        args = list(node.args)
        args[index] = args[index].with_changes(value=value)
        return node.with_changes(args=args)

    draft.changes.expression(call, change)


def _keyword(name: str, code: str) -> cst.Arg:
    none = cst.SimpleWhitespace("")
    return cst.Arg(
        cst.parse_expression(code), cst.Name(name), equal=cst.AssignEqual(none, none)
    )  # fmt: skip


def _added(call: cst.Call, argument: cst.Arg) -> cst.Call:
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
    comma = last.comma
    end = {"comma": comma.with_changes(whitespace_after=rest)} if isinstance(
        comma, cst.Comma) else {"whitespace_after_arg": rest}  # fmt: skip
    return call.with_changes(args=[*args, argument.with_changes(**end)])


def _trailing(argument: cst.Arg) -> object:
    """The space between the last argument and the closing parenthesis."""
    if isinstance(argument.comma, cst.Comma):
        return argument.comma.whitespace_after
    return argument.whitespace_after_arg


def _parted(space: object) -> tuple[object, object]:
    """The comment on the last argument's own line, and the space without it."""
    if not isinstance(space, cst.ParenthesizedWhitespace) or space.first_line.comment is None:
        return None, space
    bare = space.first_line.with_changes(comment=None, whitespace=_NONE)
    return space.first_line, space.with_changes(first_line=bare)


def _led(comma: cst.Comma, first_line: object) -> cst.Comma:
    """The comma with a comment behind it."""
    if first_line is None:
        return comma
    space: object = comma.whitespace_after
    if not isinstance(space, cst.ParenthesizedWhitespace):
        space = new_line("    ")
    return comma.with_changes(whitespace_after=space.with_changes(first_line=first_line))


_NONE = cst.SimpleWhitespace("")


def _comma(call: cst.Call, args: list[cst.Arg]) -> cst.Comma:
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
