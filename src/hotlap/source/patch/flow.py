"""Where a value comes from, followed through names, `self`, moves and the calls of this file."""

import ast
from collections.abc import Iterable, Sequence

from hotlap.source.module import Source
from hotlap.source.patch.bindings import Bindings, Bound
from hotlap.source.tree import method, receiver

Origins = frozenset[ast.AST]
Function = ast.FunctionDef | ast.AsyncFunctionDef

_SAME_OBJECT = frozenset(
    ["to", "cuda", "cpu", "train", "eval", "float", "requires_grad_", "compile"]
)
_SAME_THING = frozenset(
    {
        "torch.compile",
        "torch.nn.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "hotlap.data.CachedDataset",
        "hotlap.data.DevicePrefetcher",
        "enumerate",
        "iter",
        "tqdm.tqdm",
        "tqdm.auto.tqdm",
    }
)


class Flow:
    """Origins of expressions: the calls and other nodes in which their values were made."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tree = source.tree
        self.bindings = Bindings(source.tree)
        self._open: set[ast.AST] = set()
        self._known: dict[ast.AST, Origins | None] = {}

    def origins(self, node: ast.AST) -> Origins | None:
        """Everything an expression may be; None where part of it lies outside of this file."""
        if node in self._known:
            return self._known[node]
        if node in self._open:
            return frozenset()
        self._open.add(node)
        found = self._origins(node)
        self._open.discard(node)
        if not self._open:
            self._known[node] = found
        return found

    def only(self, node: ast.AST) -> ast.AST | None:
        """The one origin of an expression, if there is just one."""
        found = self.origins(node)
        return next(iter(found)) if found is not None and len(found) == 1 else None

    def _origins(self, node: ast.AST) -> Origins | None:
        match node:
            case ast.Name():
                return self._of_name(node)
            case ast.Attribute():
                return self._of_attribute(node)
            case ast.IfExp(body=body, orelse=other):
                return self._union([body, other])
            case ast.arg():
                return self._of_parameter(node)
        inner = self._passed_on(node) if isinstance(node, ast.Call) else None
        return frozenset({node}) if inner is None else self.origins(inner)

    def _passed_on(self, call: ast.Call) -> ast.expr | None:
        """The object that a call hands back: `model` of `model.to(device)`."""
        dotted = self._source.names.of(call.func)
        if dotted in _SAME_THING:
            return call.args[0] if call.args else None
        if method(call) in _SAME_OBJECT and not dotted.startswith("torch."):
            return receiver(call)
        return None

    def _union(self, nodes: Iterable[Bound]) -> Origins | None:
        found: set[ast.AST] = set()
        for node in nodes:
            origins = None if node is None else self.origins(node)
            if origins is None:
                return None
            found |= origins
        return frozenset(found)

    def _of_name(self, name: ast.Name) -> Origins | None:
        if isinstance(name.ctx, ast.Store):
            return frozenset({name})
        scope = self.bindings.scope_of(name)
        if scope is None:
            return frozenset({name})
        return self._union(self.bindings.names[scope, name.id])

    def _of_attribute(self, node: ast.Attribute) -> Origins | None:
        if isinstance(node.ctx, ast.Store):
            return frozenset({node})
        owner = self.instance_of(node.value)
        bound = self.bindings.attributes.get((owner, node.attr)) if owner else None
        if bound is None:
            return frozenset({node})
        return None if node.attr in self.bindings.foreign else self._union(bound)

    def instance_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of this file that an expression is an instance of."""
        if isinstance(node, ast.Name) and (owner := self._self(node)) is not None:
            return owner
        origin = self.only(node)
        return self.class_of(origin) if isinstance(origin, ast.Call) else None

    def class_of(self, call: ast.Call) -> ast.ClassDef | None:
        """The class of this file that a call makes an instance of."""
        if not isinstance(call.func, ast.Name):
            return None
        made = self.only(call.func)
        return made if isinstance(made, ast.ClassDef) else None

    def _self(self, name: ast.Name) -> ast.ClassDef | None:
        function = self._tree.function(name)
        if function is None or not function.args.args or function.args.args[0].arg != name.id:
            return None
        parent = self._tree.parent(function)
        return parent if isinstance(parent, ast.ClassDef) else None

    # parameters

    def _of_parameter(self, parameter: ast.arg) -> Origins | None:
        function = self._tree.scope(parameter)
        if not isinstance(function, Function) or parameter in _starred(function):
            return None
        calls = self.callers(function)
        if not calls:
            return None
        return self._union(self.argument(call, function, parameter) for call in calls)

    def argument(self, call: ast.Call, function: Function, parameter: ast.arg) -> ast.expr | None:
        """What a call passes as one parameter of a function of this file."""
        if any(isinstance(a, ast.Starred) for a in call.args):
            return None
        for entry in call.keywords:
            if entry.arg in (None, parameter.arg):
                return entry.value if entry.arg else None
        names = [*function.args.posonlyargs, *function.args.args]
        offset = 1 if isinstance(self._tree.parent(function), ast.ClassDef) else 0
        if parameter in names and names.index(parameter) - offset < len(call.args):
            return call.args[names.index(parameter) - offset]
        return _default(function, parameter)

    def callers(self, function: Function) -> list[ast.Call] | None:
        """Every call of a function; None where it may be called from elsewhere."""
        owner = self._tree.parent(function)
        if isinstance(owner, ast.ClassDef):
            return self._constructions(owner) if function.name == "__init__" else self._methods(
                owner, function.name)  # fmt: skip
        uses = [n for n in self._tree.nodes if isinstance(n, ast.Name) and n.id == function.name]
        loads = [n for n in uses if isinstance(n.ctx, ast.Load) and self.only(n) is function]
        return self._as_calls(loads)

    def _methods(self, owner: ast.ClassDef, name: str) -> list[ast.Call] | None:
        uses: list[ast.expr] = []
        for node in self._tree.nodes:
            if isinstance(node, ast.Attribute) and node.attr == name:
                kind = self.instance_of(node.value)
                if kind is owner:
                    uses.append(node)
                elif kind is None and self.origins(node.value) is None:
                    return None
        return self._as_calls(uses)

    def _constructions(self, owner: ast.ClassDef) -> list[ast.Call] | None:
        if any(isinstance(b, ast.Name) and self.only(b) is owner
               for c in self._tree.classes for b in c.bases):  # fmt: skip
            return None
        return [call for call in self._tree.calls if self.class_of(call) is owner]

    def _as_calls(self, uses: Sequence[ast.expr]) -> list[ast.Call] | None:
        calls = []
        for use in uses:
            parent = self._tree.parent(use)
            if not (isinstance(parent, ast.Call) and parent.func is use):
                return None
            calls.append(parent)
        return calls


def _starred(function: Function) -> tuple[ast.arg | None, ast.arg | None]:
    return function.args.vararg, function.args.kwarg


def _default(function: Function, parameter: ast.arg) -> ast.expr | None:
    """The default of a parameter."""
    names = [*function.args.posonlyargs, *function.args.args]
    found = dict(zip(reversed(names), reversed(function.args.defaults), strict=False))
    keyword = dict(zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True))
    return found.get(parameter) or keyword.get(parameter)
