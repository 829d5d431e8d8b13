"""What each name and each attribute of `self` is bound to in a module."""

import ast
from collections import defaultdict
from collections.abc import Iterator

from hotlap.source.tree import Scope, Tree

Bound = ast.AST | None  # the value assigned; the binding node itself where it is opaque


class Bindings:
    """`names[scope, name]` and `attributes[class, name]`: every value that is bound there.

    None in a list: something is bound that this file does not show.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.names: dict[tuple[Scope, str], list[Bound]] = defaultdict(list)
        self.attributes: dict[tuple[ast.ClassDef, str], list[Bound]] = defaultdict(list)
        self.foreign: set[str] = set()
        self._declared = dict(self._declarations())
        for node in tree.nodes:
            self._bind(node)

    def scope_of(self, name: ast.Name) -> Scope | None:
        """The scope in which a name that is used here was bound."""
        for scope in self._tree.scopes(name):
            home = self._declared.get((scope, name.id), scope)
            if (home, name.id) in self.names:
                return home
        return None

    def _declarations(self) -> Iterator[tuple[tuple[Scope, str], Scope]]:
        for node in self._tree.nodes:
            if isinstance(node, ast.Global):
                for name in node.names:
                    yield (self._tree.scope(node), name), self._tree.module
            elif isinstance(node, ast.Nonlocal):
                outer = list(self._tree.scopes(node))
                for name in node.names:
                    yield (outer[0], name), outer[1]

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                self._put(node, name, self._value(node))
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                self._attribute(node)
            case ast.arg(arg=name) | ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                self._put(node, name, node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self._put(node, name, node)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    self._put(node, alias.asname or alias.name.partition(".")[0], alias)

    def _put(self, node: ast.AST, name: str, value: Bound) -> None:
        scope = self._tree.scope(node)
        self.names[self._declared.get((scope, name), scope), name].append(value)

    def _attribute(self, node: ast.Attribute) -> None:
        function, owner = self._tree.function(node), self._tree.class_of(node)
        first = function.args.args[0].arg if function and function.args.args else ""
        if owner is not None and isinstance(node.value, ast.Name) and node.value.id == first:
            self.attributes[owner, node.attr].append(self._value(node))
        else:
            self.foreign.add(node.attr)

    def _value(self, target: ast.expr) -> Bound:
        """What an assignment puts into one of its targets; the target itself where not known."""
        match self._tree.parent(target):
            case ast.Assign(value=value, targets=targets) if target in targets:
                return value
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                return value
            case ast.Tuple(elts=elements) as pair:
                above = self._tree.parent(pair)
                if isinstance(above, ast.Assign) and isinstance(above.value, ast.Tuple):
                    values = above.value.elts
                    if len(values) == len(elements):
                        return values[elements.index(target)]
        return target
