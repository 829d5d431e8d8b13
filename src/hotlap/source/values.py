"""What the variables of a module hold: a model, an optimizer, a loader, a tensor with a graph.

Definitions get kinds from what is assigned, names from how they are used, parameters from what
calls in the same file pass. What stays unknown has no kind.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from hotlap.source import kinds as kind
from hotlap.source.flow import Flow
from hotlap.source.kinds import Kinds
from hotlap.source.names import Names
from hotlap.source.project import View
from hotlap.source.tree import Function, Scope, Tree, text

_DEEPEST = 150
_PREPARES = frozenset({"prepare", "setup_dataloaders", "prepare_data_loader", "MpDeviceLoader"})
_MODULES = frozenset({"LightningModule", "PreTrainedModel", "Module"})


Handlers = Mapping[type[ast.AST], Callable[["Values", Any], Kinds]]


class Values:
    """The kinds of the names and expressions of one module."""

    def __init__(
        self, tree: Tree, names: Names, handlers: Handlers, project: View | None = None
    ) -> None:
        """`handlers` work out the kinds of an expression, by its syntax."""
        self._handlers, self._project = handlers, project
        self.tree, self.names, self.flow = tree, names, Flow(tree)
        self.loose: dict[tuple[Scope | None, str], set[str]] = defaultdict(set)
        self._classes: dict[str, ast.ClassDef] = {c.name: c for c in tree.classes}
        self.functions: dict[tuple[ast.AST | None, str], Function] = {
            (tree.class_of(f), f.name): f for f in tree.functions
        }
        self._memo: dict[ast.AST, Kinds] = {}
        self._depth = 0

    def forget(self) -> None:
        """Drop what was worked out: definitions have got new kinds."""
        self._memo.clear()

    def class_kind(self, node: ast.ClassDef) -> str:
        """What instances of a class of this module are: a model, a dataset, or unknown."""
        seen: set[ast.ClassDef] = set()
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            for base in one.bases:
                if made := self._kind_of(self.names.of(base)):
                    return made
                waiting += [self._classes[text(base)]] if text(base) in self._classes else []
        return ""

    def _kind_of(self, base: str) -> str:
        """What a class with this base is; the base may stand in another file of the project."""
        if made := _kind_of_base(base):
            return made
        found = self._project.bases(base) if self._project is not None and base else ()
        return next(filter(None, map(_kind_of_base, found)), "")

    def imported_kind(self, dotted: str) -> str:
        """What instances of a class of another file of the project are."""
        if self._project is None or not dotted or self._project.class_of(dotted) is None:
            return ""
        return self._kind_of(dotted)

    def local_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of this module that an expression names."""
        return self._classes.get(text(node))

    def local(self, call: ast.Call) -> Function | None:
        """The function of this module that a call runs: `f(...)` or `self.f(...)`."""
        return self.named(call.func)

    def named(self, node: ast.expr) -> Function | None:
        """The function of this module that an expression names: `f` or `self.f`."""
        name = text(node)
        owner = self.tree.class_of(node) if name.startswith("self.") else None
        return self.functions.get((owner, name.removeprefix("self.")))

    @cached_property
    def callers(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls in this file of each of its functions, recursion aside."""
        found: dict[ast.AST, list[ast.Call]] = defaultdict(list)
        for call in self.tree.calls:
            function = self.local(call)
            if function is not None and not self.tree.inside(call, function):
                found[function].append(call)
        return found

    @cached_property
    def batch(self) -> Kinds:
        """What a loader yields: on the host, unless something in the file prepares loaders."""
        prepared = self.names.default_device or self.tree.methods.keys() & _PREPARES
        kinds = frozenset({kind.TENSOR, kind.SEVERAL})
        return kinds if prepared else kinds | {kind.HOST}

    def returned(self, function: Function) -> Kinds:
        """The kinds of what a function of this module returns."""
        return frozenset().union(*(self.kinds(node) for node in self._returns.get(function, [])))

    def tuples(self, function: Function, length: int) -> list[list[ast.expr]]:
        """The tuples of a length that a function returns, if it returns nothing else."""
        found = [
            node.elts for node in self._returns.get(function, []) if isinstance(node, ast.Tuple)
        ]
        same = all(len(elements) == length for elements in found)
        return found if same and len(found) == len(self._returns.get(function, [])) else []

    @cached_property
    def _returns(self) -> dict[ast.AST, list[ast.expr]]:
        found: dict[ast.AST, list[ast.expr]] = defaultdict(list)
        for node in self.tree.every(ast.Return):
            if node.value is not None:
                found[self.tree.scope(node)].append(node.value)
        return found

    def are(self, node: ast.AST, kind: str) -> bool:
        """Whether an expression is of a kind."""
        return kind in self.kinds(node)

    def kinds(self, node: ast.AST) -> Kinds:
        """The kinds of an expression."""
        found = self._memo.get(node)
        if found is None:
            if self._depth > _DEEPEST:
                return kind.NONE
            self._depth += 1
            handler = self._handlers.get(type(node))
            found = handler(self, node) if handler else kind.NONE
            self._depth -= 1
            self._memo[node] = found
        return found

    def of_variable(self, node: ast.Name | ast.Attribute) -> Kinds:
        """The kinds of a name or `self.x`, from the definitions that reach it."""
        name = text(node)
        reaching = self.flow.reaching(node)
        found: set[str] = set()
        for definition in reaching:
            found |= definition.kinds
        if not reaching:
            found |= self.loose.get((None, name), kind.NONE)
        if not found and self._unknown(node):
            return next(
                (frozenset({made}) for like, made in kind.CALLED if like.search(name)), kind.NONE
            )
        return frozenset(found)

    def _unknown(self, node: ast.Name | ast.Attribute) -> bool:
        """Whether nothing tells what a name holds: a parameter, an import, another's result."""
        if text(node).startswith("torch."):
            return False
        values = [definition.value for definition in self.flow.reaching(node)]
        return all(value is None or isinstance(value, ast.Call) for value in values)


def _kind_of_base(dotted: str) -> str:
    last = dotted.rpartition(".")[2]
    if dotted == "torch.nn.Module" or last in _MODULES:
        return kind.MODEL
    if last.endswith("Dataset") and dotted.startswith(("torch.utils.data.", "torchvision.")):
        return kind.DATASET
    return kind.MODEL if dotted.startswith("torch.nn.") and last[:1].isupper() else ""
