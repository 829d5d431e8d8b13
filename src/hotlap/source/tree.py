"""The syntax tree of a module with what `ast` leaves out: parents, scopes, enclosing nodes."""

import ast
from collections.abc import Iterator
from functools import cached_property

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While
_SCOPES = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Tree:
    """A parsed module. `nodes` are all of its nodes, in the order of the source."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self._parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        stack: list[ast.AST] = [module]
        while stack:
            node = stack.pop()
            self.nodes.append(node)
            children = list(ast.iter_child_nodes(node))
            for child in children:
                self._parents[child] = node
            stack.extend(reversed(children))

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in self.nodes if isinstance(node, kinds)]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        """Every class."""
        return [node for node in self.nodes if isinstance(node, ast.ClassDef)]

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around this one; None for the module."""
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around this one, from the inside out."""
        around = self._parents.get(node)
        while around is not None:
            yield around
            around = self._parents.get(around)

    def scope(self, node: ast.AST) -> Scope:
        """The scope that a name bound by this node belongs to."""
        for around in self.above(node):
            if isinstance(around, _SCOPES):
                return around
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

    def inside(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether a node lies within another (or is it)."""
        return node is outer or any(around is outer for around in self.above(node))


def _in_head(loop: Loop, child: ast.AST) -> bool:
    return isinstance(loop, ast.For | ast.AsyncFor) and child is loop.iter


def text(node: ast.AST) -> str:
    """A name or attribute chain as written (`self.model`); empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument, if it is given by name."""
    return next((entry.value for entry in call.keywords if entry.arg == name), None)


def opaque(call: ast.Call) -> bool:
    """Whether the call takes arguments that are not spelled out (`*args`, `**options`)."""
    starred = any(isinstance(argument, ast.Starred) for argument in call.args)
    return starred or any(entry.arg is None for entry in call.keywords)


def method(call: ast.AST) -> str:
    """The method's name of a call `x.name(...)`; empty otherwise."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return call.func.attr
    return ""


def receiver(call: ast.AST) -> ast.expr | None:
    """The `x` of a call `x.name(...)`."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        return call.func.value
    return None
