"""Which definitions of a name can reach a use of it.

An approximation by place: the last definition in a block around the use hides the earlier ones;
those in branches in between may hold too, and so may those later in a loop around the use.
"""

import ast
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from hotlap.source.tree import Block, Scope, Tree, text

Place = tuple[int, int]
Key = tuple[Scope | None, str]
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_START: Place = (0, 0)


@dataclass(eq=False)
class Definition:
    """One place that gives a name a value. It holds from `at` on; `kinds` are filled in later.

    `value` is what is assigned, `source` what a loop draws it from.
    """

    target: ast.AST
    at: Place
    block: Block | None
    where: ast.AST | None
    value: ast.expr | None = None
    source: ast.expr | None = None
    kinds: set[str] = field(default_factory=set)


class Flow:
    """The definitions of a module, and which of them reach a name."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.of_target: dict[ast.AST, Definition] = {}
        self._found: dict[Key, list[Definition]] = defaultdict(list)
        self._reaching: dict[ast.AST, list[Definition]] = {}
        self._by_scope: dict[tuple[int, Scope | None], list[Definition]] = {}
        for argument in tree.every(ast.arg):
            function = tree.scope(argument)
            self._add(argument, argument.arg, Definition(argument, _START, None, function))
        for target in _targets(tree):
            self._add(target, text(target), self._definition(target))
        for definitions in self._found.values():
            definitions.sort(key=lambda definition: definition.at)

    def reaching(self, node: ast.Name | ast.Attribute) -> list[Definition]:
        """The definitions that a name (or `self.x`) may have its value from."""
        if node not in self._reaching:
            self._reaching[node] = self._reach(node, text(node))
        return self._reaching[node]

    def uses(self, target: ast.Name) -> list[ast.Name]:
        """Where a variable may have the value that it is given at this name."""
        return [
            use
            for use in self._tree.loads.get(target.id, [])
            if any(definition.target is target for definition in self.reaching(use))
        ]

    def every(self, node: ast.Name | ast.Attribute) -> list[Definition]:
        """Every definition of the variable that a name or `self.x` stands for."""
        name = text(node)
        for scope in self._scopes(node, name):
            if (scope, name) in self._found:
                return self._found[scope, name]
        return []

    def targets(self, scope: Scope | None, name: str) -> list[ast.AST]:
        """What gives the variable of a scope its values: names, parameters, attributes."""
        return [definition.target for definition in self._found.get((scope, name), ())]

    def _reach(self, node: ast.Name | ast.Attribute, name: str) -> list[Definition]:
        if inner := self._in_comprehension(node, name):
            return [inner]
        every = self.every(node)
        found, near = self._of_scope(every, None), self._of_scope(every, self._tree.scope(node))
        reached, sure = self._visible(node, near)
        return reached if sure or len(near) == len(found) else found

    def _of_scope(self, every: list[Definition], scope: Scope | None) -> list[Definition]:
        """The definitions in a scope (None: in any), comprehensions' aside; worked out once."""
        if not every:
            return every
        key = (id(every), scope)
        if key not in self._by_scope:
            self._by_scope[key] = [
                d for d in every
                if not isinstance(d.where, ast.comprehension) and scope in (None, d.where)
            ]  # fmt: skip
        return self._by_scope[key]

    def _visible(self, node: ast.expr, found: list[Definition]) -> tuple[list[Definition], bool]:
        """Those that may hold at a node, and whether one of them surely hides all others."""
        around = set(self._tree.blocks(node))
        here = bisect_right(found, (node.lineno, node.col_offset), key=_at)
        last, since = None, here
        while since and last is None:  # backwards, so that a long file costs no more
            since -= 1
            if found[since].block is None or found[since].block in around:
                last = found[since]
        start = last.at if last else _START
        reached = [last] if last else []
        reached += [d for d in found[since:here] if d.at > start and not self._exclusive(d, around)]
        return [*reached, *self._brought_back(node, last, found, here)], last is not None

    def _brought_back(
        self, node: ast.AST, last: Definition | None, found: list[Definition], here: int
    ) -> Iterator[Definition]:
        """The definitions from `here` on that a loop around a node brings back to it."""
        carried = self._carried(node, last)
        end = max(map(_end, carried), default=_START)
        for definition in islice(found, here, None if carried else here):
            if definition.at > end:
                return
            if carried & set(self._tree.above(definition.target)):
                yield definition

    def _carried(self, node: ast.AST, last: Definition | None) -> set[ast.AST]:
        """The loops around a node whose next round brings later definitions back to it."""
        loops = set(self._tree.loops(node))
        return loops - set(self._tree.above(last.target)) if last else loops  # type: ignore[return-value]

    def _exclusive(self, definition: Definition, around: set[Block]) -> bool:
        """Whether a definition lies in the other branch of an `if` around the use."""
        return any(
            isinstance(statement, ast.If)
            and (statement, "orelse" if branch == "body" else "body") in around
            for statement, branch in self._tree.blocks(definition.target)
        )

    def _in_comprehension(self, node: ast.AST, name: str) -> Definition | None:
        for around in self._tree.above(node):
            if isinstance(around, ast.stmt):
                return None
            if isinstance(around, _COMPREHENSIONS):
                for part in around.generators:
                    if self._tree.inside(node, part.iter):
                        continue
                    for target in ast.walk(part.target):
                        if isinstance(target, ast.Name) and target.id == name:
                            return self.of_target[target]
        return None

    def _definition(self, target: ast.AST) -> Definition:
        around: ast.AST = target
        while not isinstance(around, ast.stmt | ast.comprehension | ast.NamedExpr | ast.withitem):
            around = self._tree.parent(around) or self._tree.module
        blocks = self._tree.blocks(target)
        block = blocks[0] if blocks else None
        scope = self._tree.scope(target)
        if isinstance(around, ast.comprehension):
            return Definition(target, _START, block, around, source=around.iter)
        if isinstance(around, ast.For | ast.AsyncFor):
            holds = (around, "body")
            return Definition(target, _end(around.iter), holds, scope, source=around.iter)
        if isinstance(around, ast.withitem):
            holder = self._tree.parent(around) or self._tree.module
            return Definition(target, _end(target), (holder, "body"), scope)
        value = getattr(around, "value", None)
        return Definition(target, _end(around), block, scope, value)

    def _add(self, target: ast.AST, name: str, definition: Definition) -> None:
        scope = next(self._scopes(target, name))
        scope = self._tree.declared.get((scope, name), scope)
        self.of_target[target] = definition
        self._found[scope, name].append(definition)

    def _scopes(self, node: ast.AST, name: str) -> Iterator[Scope | None]:
        if name.startswith(("self.", "cls.")):
            yield self._tree.class_of(node)
        else:
            yield from self._tree.scopes(node)


def _targets(tree: Tree) -> Iterator[ast.Name | ast.Attribute]:
    for name in tree.every(ast.Name):
        if isinstance(name.ctx, ast.Store):
            yield name
    for attribute in tree.every(ast.Attribute):
        if isinstance(attribute.ctx, ast.Store) and text(attribute):
            yield attribute


def _at(definition: Definition) -> Place:
    return definition.at


def _end(node: ast.AST) -> Place:
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
