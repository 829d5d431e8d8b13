"""Changes gathered on one text and made in one pass over its concrete syntax tree."""

import ast
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from hotlap.source.patch.places import Place, Places, Span

Line = cst.SimpleStatementLine | cst.BaseCompoundStatement
OnExpression = Callable[[Any], cst.BaseExpression]
OnLine = Callable[[Any], Sequence[Line]]


@dataclass
class Changes:
    """What is to change: expressions by their span, whole lines by where they begin.

    `wraps` are runs of lines of one block, first and last of them, with the head of the `with`.
    """

    places: Places
    expressions: dict[Span, OnExpression] = field(default_factory=dict)
    lines: dict[Place, OnLine] = field(default_factory=dict)
    before: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    after: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    wraps: list[tuple[Place, Place, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any((self.expressions, self.lines, self.before, self.after, self.wraps))

    def clear(self) -> None:
        """Forget all changes."""
        for gathered in (self.expressions, self.lines, self.before, self.after):
            gathered.clear()
        self.wraps.clear()

    def expression(self, node: ast.AST, change: OnExpression) -> None:
        """Change one expression."""
        self.expressions[self.places.span(node)] = change

    def code(self, node: ast.AST, code: str) -> None:
        """Put other code in an expression's place."""
        self.expression(node, lambda _: cst.parse_expression(code))

    def line(self, statement: ast.stmt, change: OnLine) -> None:
        """Change one statement into others."""
        self.lines[self.places.start(statement)] = change

    def remove(self, statement: ast.stmt) -> None:
        """Take a statement out."""
        self.line(statement, lambda _: ())

    def insert_before(self, statement: ast.stmt, code: str) -> None:
        """Put a statement before another."""
        self.before[self.places.start(statement)].append(code)

    def insert_after(self, statement: ast.stmt, code: str, *, apart: bool = False) -> None:
        """Put a statement after another, with a blank line between them if `apart`."""
        self.after[self.places.start(statement)].append("\n" * apart + code)

    def imported(self, statement: ast.stmt, name: str) -> None:
        """Add a name to a `from ... import`."""
        earlier: OnLine = self.lines.get(self.places.start(statement), lambda line: [line])
        self.line(statement, lambda line: [_with_import(earlier(line)[0], name)])

    def wrap(self, first: ast.stmt, last: ast.stmt, head: str) -> None:
        """Put a run of statements of one block below `head:`."""
        self.wraps.append((self.places.start(first), self.places.start(last), head))

    def parameter(self, function: ast.stmt, name: str) -> None:
        """Give a function one more parameter, the last."""
        self.line(function, lambda node: [_with_parameter(node, name)])

    def decorator(self, function: ast.stmt, code: str) -> None:
        """Put a decorator right above a function, below those it has."""
        made = cst.Decorator(cst.parse_expression(code))
        self.line(function, lambda n: [n.with_changes(decorators=[*n.decorators, made])])

    def rendered(self) -> str:
        """The text with all changes made."""
        wrapper = MetadataWrapper(cst.parse_module(self.places.text))
        writer = _Writer(self, wrapper.module.config_for_parsing)
        return wrapper.visit(writer).code


class _Writer(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, changes: Changes, config: cst.PartialParserConfig) -> None:
        super().__init__()
        self._changes = changes
        self._config = config

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        if isinstance(original_node, cst.BaseExpression):
            change = self._changes.expressions.get(self._span(original_node))
            return updated_node if change is None else _parenthesised(updated_node, change)
        if isinstance(original_node, (cst.IndentedBlock, cst.Module)):
            return self._block(original_node, updated_node)
        return updated_node

    def _block(self, original: Any, updated: Any) -> object:
        lines: list[Line] = []
        opened: list[tuple[Place, str, list[Line]]] = []
        spare: Sequence[cst.EmptyLine] = ()
        for old, new in zip(original.body, updated.body, strict=True):
            here = self._span(old)[0]
            opened += [(last, head, []) for first, last, head in self._changes.wraps
                       if first == here]  # fmt: skip
            made = self._line(here, new)
            spare = _blank(new) if not made else _hand_on(spare, made)
            (opened[-1][2] if opened else lines).extend(made)
            while opened and opened[-1][0] == here:
                _, head, inner = opened.pop()
                (opened[-1][2] if opened else lines).append(self._below(head, inner))
        if not lines and original.body:
            lines = [self._statement("pass")]
        return updated.with_changes(body=lines)

    def _line(self, here: Place, line: Line) -> list[Line]:
        changes = self._changes
        made = list(changes.lines[here](line)) if here in changes.lines else [line]
        first = [self._statement(code) for code in changes.before.get(here, ())]
        if first and made:
            first, made = _led_in(first, made)
        return [*first, *made, *(self._statement(code) for code in changes.after.get(here, ()))]

    def _below(self, head: str, lines: list[Line]) -> Line:
        frame = self._statement(f"{head}:\n    pass\n")
        first = lines[0]
        return frame.with_changes(
            leading_lines=first.leading_lines,
            body=cst.IndentedBlock([first.with_changes(leading_lines=()), *lines[1:]]),
        )

    def _statement(self, code: str) -> Line:
        made = cst.parse_statement(code.lstrip("\n"), self._config)
        if code.startswith("\n"):  # in the file's own line ends
            made = made.with_changes(leading_lines=(cst.EmptyLine(indent=False),))
        return made

    def _span(self, node: cst.CSTNode) -> Span:
        found = self.get_metadata(PositionProvider, node)
        return (found.start.line, found.start.column), (found.end.line, found.end.column)


def _with_parameter(function: cst.FunctionDef, name: str) -> Line:
    parameters = list(function.params.params)
    last = parameters[-1]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    between = parameters[-2].comma if len(parameters) > 1 else comma
    parameters[-1] = last.with_changes(comma=between)
    parameters.append(cst.Param(cst.Name(name), comma=last.comma))
    return function.with_changes(params=function.params.with_changes(params=parameters))


def _with_import(line: Any, name: str) -> Any:
    """`from m import a, b` with one name more; sorted in if the others are sorted."""
    statement = line.body[0]
    names = list(statement.names)
    if any(old.name.value == name for old in names):
        return line
    words = [old.name.value for old in names]
    at = sum(word < name for word in words) if words == sorted(words) else len(words)
    comma = names[0].comma if len(names) > 1 else cst.Comma(
        whitespace_after=cst.SimpleWhitespace(" "))  # fmt: skip
    last = names[-1].comma
    names.insert(at, cst.ImportAlias(cst.Name(name)))
    names = [old.with_changes(comma=comma) for old in names[:-1]] + [
        names[-1].with_changes(comma=last)
    ]
    return line.with_changes(body=[statement.with_changes(names=names), *line.body[1:]])


def _parenthesised(node: cst.BaseExpression, change: OnExpression) -> object:
    """Change an expression, keeping the parentheses around it."""
    made = change(node)
    if node.lpar and not made.lpar:
        return made.with_changes(lpar=node.lpar, rpar=node.rpar)
    return made


def _blank(line: Line) -> Sequence[cst.EmptyLine]:
    """The blank lines above a statement, without its comments."""
    return [empty for empty in line.leading_lines if empty.comment is None]


def _hand_on(spare: Sequence[cst.EmptyLine], made: list[Line]) -> Sequence[cst.EmptyLine]:
    """Give the blank lines above a removed statement to the next one, if it has none."""
    if spare and not made[0].leading_lines:
        made[0] = made[0].with_changes(leading_lines=spare)
    return ()


def _led_in(first: list[Line], made: list[Line]) -> tuple[list[Line], list[Line]]:
    """New statements take over the blank lines above the one that they stand before."""
    above = made[0].leading_lines
    plain = isinstance(made[0], cst.SimpleStatementLine)
    if plain and all(empty.comment is None for empty in above):
        return [first[0].with_changes(leading_lines=above), *first[1:]], [
            made[0].with_changes(leading_lines=()), *made[1:]]  # fmt: skip
    if above or not plain:
        first = [first[0].with_changes(leading_lines=(cst.EmptyLine(indent=False),)), *first[1:]]
    return first, made
