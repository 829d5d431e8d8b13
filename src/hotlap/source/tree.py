"""The syntax tree of a module with what `ast` leaves out: parents, scopes, enclosing nodes."""

import ast
from collections import defaultdict
from collections.abc import Container, Iterator
from functools import cached_property
from itertools import pairwise, takewhile
from typing import TypeVar

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Function = FunctionNode | ast.Lambda
Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While
Block = tuple[ast.AST, str]
Kind = TypeVar("Kind", bound=ast.AST)
_SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BLOCKS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})
# Fields that never hold what a check asks for: names, operators and contexts.
_PLAIN = frozenset({"id", "attr", "ctx", "op", "ops", "kind", "type_comment", "conversion"})
_PLAIN |= {"module", "level", "asname", "is_async", "simple", "type_ignores"}


class Tree:
    """A parsed module. `nodes` are its nodes, operators and contexts aside, in source order."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self._parents: dict[ast.AST, ast.AST] = {}
        self._by_kind: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        self._fields: dict[ast.AST, str] = {}
        self._blocks: dict[ast.AST, tuple[Block, ...]] = {}
        self.nodes: list[ast.AST] = []
        self._walk(module)

    def _walk(self, module: ast.Module) -> None:
        stack: list[ast.AST] = [module]
        while stack:
            node = stack.pop()
            self.nodes.append(node)
            self._by_kind[type(node)].append(node)
            if type(node) not in (ast.Name, ast.Constant):
                children = list(self._children(node))
                for child in children:
                    self._parents[child] = node
                children.reverse()
                stack += children

    def _children(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes below one, by the fields of its type.

        Operators are shared by all trees of a process, and other tools hang attributes of their own
        on them: `executing`, which IPython shows a traceback with, a `parent` in its own tree.
        """
        for field in node._fields:
            if field in _PLAIN:
                continue
            value = getattr(node, field, None)
            if type(value) is list:
                if field in _BLOCKS:
                    self._fields.update(dict.fromkeys(value, field))
                yield from (item for item in value if isinstance(item, ast.AST))
            elif isinstance(value, ast.AST):
                yield value

    def every(self, kind: type[Kind]) -> list[Kind]:
        """Every node of a type, in the order of the source."""
        return self._by_kind.get(kind, [])  # type: ignore[return-value]

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call."""
        return self.every(ast.Call)

    @cached_property
    def methods(self) -> dict[str, list[ast.Call]]:
        """The calls `x.name(...)` by name."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            if isinstance(call.func, ast.Attribute):
                found[call.func.attr].append(call)
        return found

    @cached_property
    def called(self) -> dict[str, list[ast.Call]]:
        """The calls by the last part of what is called: `f(...)`, `x.f(...)`."""
        found: dict[str, list[ast.Call]] = defaultdict(list)
        for call in self.calls:
            found[text(call.func).rpartition(".")[2]].append(call)
        return found

    @cached_property
    def loads(self) -> dict[str, list[ast.Name]]:
        """The places that read each name."""
        found: dict[str, list[ast.Name]] = defaultdict(list)
        for name in self.every(ast.Name):
            if isinstance(name.ctx, ast.Load):
                found[name.id].append(name)
        return found

    @cached_property
    def of_scope(self) -> dict[ast.AST, list[ast.AST]]:
        """The nodes of each function, and of the module, without those of the functions in it."""
        found: dict[ast.AST, list[ast.AST]] = defaultdict(list)
        for node in self.nodes:
            for around in self.above(node):
                if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    found[around].append(node)
                    break
            else:
                found[self.module].append(node)
        return found

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, in the order of the source."""
        found: list[ast.FunctionDef | ast.AsyncFunctionDef] = [*self.every(ast.FunctionDef)]
        found += self.every(ast.AsyncFunctionDef)
        return sorted(found, key=lambda function: function.lineno)

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """Every class."""
        return self.every(ast.ClassDef)

    @cached_property
    def declared(self) -> dict[tuple[ast.AST | None, str], Scope]:
        """The scopes that `global` and `nonlocal` give names in other scopes."""
        found: dict[tuple[ast.AST | None, str], Scope] = {
            (self.scope(g), name): self.module for g in self.every(ast.Global) for name in g.names
        }
        for node in self.every(ast.Nonlocal):
            inner, outer, *_ = self.scopes(node)
            found.update({(inner, name): outer for name in node.names})
        return found

    @cached_property
    def counted(self) -> set[tuple[ast.AST | None, str]]:
        """The names that are set from a remainder (`due = step % 10 == 0`), by function."""
        found: set[tuple[ast.AST | None, str]] = set()
        for operation in self.every(ast.BinOp):
            statement = self.statement(operation) if isinstance(operation.op, ast.Mod) else None
            if isinstance(statement, ast.Assign):
                function = self.function(statement)
                found.update((function, text(target)) for target in statement.targets)
        return found

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around this one; None for the module."""
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around this one, from the inside out."""
        around = self._parents.get(node)
        while around is not None:
            yield around
            around = self._parents.get(around)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement a node belongs to (or is)."""
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def siblings(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of the block that one stands in, itself included."""
        found: list[ast.stmt] = getattr(self._parents[statement], self._fields[statement])
        return found

    def blocks(self, node: ast.AST) -> tuple[Block, ...]:
        """The blocks around a node, from the inside out: (the `if` statement, "orelse"), ..."""
        if node is self.module:
            return ()
        statement = self.statement(node)
        found = self._blocks.get(statement)
        if found is None:
            chain = [statement, *self.above(statement)]
            pairs = (pair for pair in pairwise(chain) if pair[0] in self._fields)
            found = tuple((around, self._fields[inner]) for inner, around in pairs)
            self._blocks[statement] = found
        return found

    def scope(self, node: ast.AST) -> Scope:
        """The scope that a name bound by this node belongs to."""
        around = self._parents.get(node)
        while around is not None:
            if isinstance(around, _SCOPES):
                return around
            around = self._parents.get(around)
        return self.module

    def scopes(self, node: ast.AST) -> Iterator[Scope]:
        """The scopes a name is looked up in, as Python does: a class only from its own body."""
        first = True
        for around in self.above(node):
            if isinstance(around, _SCOPES):
                if first or not isinstance(around, ast.ClassDef):
                    yield around
                first = False

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function a node stands in."""
        for around in self.above(node):
            if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
                return around
        return None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class a node stands in."""
        return next((a for a in self.above(node) if isinstance(a, ast.ClassDef)), None)

    def loops(self, node: ast.AST) -> Iterator[Loop]:
        """The loops around a node within its function, from the inside out.

        A node in the head of a `for` (what is iterated over) is not inside that loop.
        """
        below: ast.AST = node
        for around in self.above(node):
            if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                return
            if isinstance(around, _LOOPS) and not _in_head(around, below):
                yield around
            below = around

    def exclusive(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether two nodes lie in different branches of one `if`."""
        branches = {id(holder): branch for holder, branch in self.blocks(one)}
        return any(
            isinstance(holder, ast.If) and branches.get(id(holder), branch) != branch
            for holder, branch in self.blocks(other)
        )

    def contexts(self, node: ast.AST) -> Iterator[ast.expr]:
        """The contexts of the `with`s around a node in its function, then its decorators."""
        for around in self.above(node):
            if isinstance(around, ast.With | ast.AsyncWith):
                yield from (item.context_expr for item in around.items)
            elif isinstance(around, FunctionNode):
                yield from around.decorator_list
                return

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether a node lies within another (or is it)."""
        return node is outer or any(around is outer for around in self.above(node))


def _in_head(loop: Loop, child: ast.AST) -> bool:
    return isinstance(loop, ast.For | ast.AsyncFor) and child is loop.iter


def text(node: ast.AST) -> str:
    """A name or attribute chain as written (`self.model`); empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def names_in(node: ast.AST | None, ctx: type[ast.expr_context] = ast.expr_context) -> set[str]:
    """The names below a node; of one context (`ast.Store`: those that it binds) if given."""
    found = ast.walk(node) if node is not None else ()
    return {n.id for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, ctx)}


def attributes_of(owner: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """What a class assigns to each attribute of `self`, by `self.name`."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(owner):
        for target in node.targets if isinstance(node, ast.Assign) else []:
            if text(target).startswith("self."):
                found[text(target)].append(node.value)  # type: ignore[attr-defined]
    return found


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument, if it is given by name."""
    return next((entry.value for entry in call.keywords if entry.arg == name), None)


def given(call: ast.Call, function: Function) -> dict[str, ast.expr]:
    """What a call spells out for the parameters of a function, by name; `self` is passed over."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    names = names[names[:1] in (["self"], ["cls"]) :]
    plain = takewhile(lambda one: not isinstance(one, ast.Starred), call.args)
    return dict(zip(names, plain, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}


def defaults(function: Function) -> dict[str, ast.expr]:
    """The defaults of a function's parameters, by name."""
    plain = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    found = {one.arg: value for one, value in named if value is not None}
    return found | dict(zip(reversed(plain), reversed(function.args.defaults), strict=False))


def opaque(call: ast.Call) -> bool:
    """Whether the call takes arguments that are not spelled out (`*args`, `**options`)."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(entry.arg is None for entry in call.keywords)


def method(call: ast.AST) -> str:
    """The method's name of a call `x.name(...)`; empty otherwise."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return call.func.attr
    return ""


def behind(node: ast.expr, methods: Container[str]) -> ast.expr:
    """The `x` of `x.a().b()`, where those are such methods; any other expression as it is."""
    while method(node) in methods and (owner := receiver(node)) is not None:
        node = owner
    return node


def receiver(call: ast.AST) -> ast.expr | None:
    """The `x` of a call `x.name(...)`."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return call.func.value
    return None
