"""Where a value comes from, followed through names, `self`, moves and the calls of this file.

Unlike `flow`, which says what may reach a place, this answers for certain or not at all.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from hotlap.source.flow import Flow
from hotlap.source.names import Names
from hotlap.source.tree import FunctionNode, Scope, Tree, defaults, given, method, opaque, receiver

Nodes = frozenset[ast.AST]

_SAME_OBJECT = frozenset(
    ["to", "cuda", "cpu", "train", "eval", "float", "requires_grad_", "compile"]
)
_SAME_THING = frozenset(
    {"torch.compile", "torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel",
     "hotlap.data.CachedDataset", "hotlap.data.DevicePrefetcher", "enumerate", "iter", "tqdm.tqdm",
     "tqdm.auto.tqdm"}
)  # fmt: skip


class Origins:
    """Origins of expressions: the calls and other nodes in which their values were made."""

    def __init__(self, tree: Tree, names: Names, flow: Flow) -> None:
        self._tree, self._names, self._flow = tree, names, flow
        self._open: set[ast.AST] = set()
        self._known: dict[ast.AST, Nodes | None] = {}

    def of(self, node: ast.AST) -> Nodes | None:
        """Everything an expression may be; None where part of it lies outside of this file."""
        if node in self._known:
            return self._known[node]
        if node in self._open:
            return frozenset()
        self._open.add(node)
        found = self._of(node)
        self._open.discard(node)
        if not self._open:
            self._known[node] = found
        return found

    def only(self, node: ast.AST) -> ast.AST | None:
        """The one origin of an expression, if there is just one."""
        found = self.of(node)
        return next(iter(found)) if found is not None and len(found) == 1 else None

    def bound(self, scope: Scope | None, name: str) -> list[ast.AST]:
        """Every value that a name of a scope is given; the binding node where it is opaque."""
        return [*map(self._value, self._flow.targets(scope, name)), *self._others[scope, name]]

    def scope_of(self, name: ast.Name) -> Scope | None:
        """The scope in which a name that is used here was bound."""
        for scope in self._tree.scopes(name):
            home = self._tree.declared.get((scope, name.id), scope)
            if self._flow.targets(home, name.id) or self._others[home, name.id]:
                return home
        return None

    def instance_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class of this file that an expression is an instance of."""
        if isinstance(node, ast.Name) and (owner := self._self(node)) is not None:
            return owner
        origin = self.only(node)
        return self.class_of(origin) if isinstance(origin, ast.Call) else None

    def class_of(self, call: ast.Call) -> ast.ClassDef | None:
        """The class of this file that a call makes an instance of."""
        made = self.only(call.func) if isinstance(call.func, ast.Name) else None
        return made if isinstance(made, ast.ClassDef) else None

    def callers(self, function: FunctionNode) -> list[ast.Call] | None:
        """Every call of a function; None where it may be called from elsewhere."""
        owner = self._tree.parent(function)
        if isinstance(owner, ast.ClassDef):
            return self._constructions(owner) if function.name == "__init__" else self._methods(
                owner, function.name)  # fmt: skip
        uses = self._tree.loads.get(function.name, [])
        return self._as_calls([use for use in uses if self.only(use) is function])

    def _of(self, node: ast.AST) -> Nodes | None:
        match node:
            case ast.Name() | ast.Attribute() if isinstance(node.ctx, ast.Store):
                return frozenset({node})
            case ast.Name(id=name):
                scope = self.scope_of(node)
                return self._union(self.bound(scope, name)) if scope else frozenset({node})
            case ast.Attribute():
                return self._of_attribute(node)
            case ast.IfExp(body=body, orelse=other):
                return self._union([body, other])
            case ast.arg():
                return self._of_parameter(node)
        inner = self._passed_on(node) if isinstance(node, ast.Call) else None
        return frozenset({node}) if inner is None else self.of(inner)

    def _passed_on(self, call: ast.Call) -> ast.expr | None:
        """The object that a call hands back: `model` of `model.to(device)`."""
        dotted = self._names.of(call.func)
        if dotted in _SAME_THING:
            return call.args[0] if call.args else None
        same = method(call) in _SAME_OBJECT and not dotted.startswith("torch.")
        return receiver(call) if same else None

    def _union(self, nodes: Iterable[ast.AST | None]) -> Nodes | None:
        found: set[ast.AST] = set()
        for node in nodes:
            origins = None if node is None else self.of(node)
            if origins is None:
                return None
            found |= origins
        return frozenset(found)

    def _of_attribute(self, node: ast.Attribute) -> Nodes | None:
        owner = self.instance_of(node.value)
        bound = self.bound(owner, f"self.{node.attr}") if owner else []
        if not bound:
            return frozenset({node})
        return None if node.attr in self._foreign else self._union(bound)

    def _self(self, name: ast.Name) -> ast.ClassDef | None:
        function = self._tree.function(name)
        if function is None or not function.args.args or function.args.args[0].arg != name.id:
            return None
        parent = self._tree.parent(function)
        return parent if isinstance(parent, ast.ClassDef) else None

    def _of_parameter(self, parameter: ast.arg) -> Nodes | None:
        function = self._tree.scope(parameter)
        if not isinstance(function, FunctionNode):
            return None
        starred = parameter in (function.args.vararg, function.args.kwarg)
        calls = None if starred else self.callers(function)
        if not calls:
            return None
        name, default = parameter.arg, defaults(function).get(parameter.arg)
        passed = (given(c, function).get(name, None if opaque(c) else default) for c in calls)
        return self._union(passed)

    def _methods(self, owner: ast.ClassDef, name: str) -> list[ast.Call] | None:
        uses: list[ast.expr] = []
        for node in self._tree.every(ast.Attribute):
            if node.attr == name:
                made = self.instance_of(node.value)
                if made is owner:
                    uses.append(node)
                elif made is None and self.of(node.value) is None:
                    return None
        return self._as_calls(uses)

    def _constructions(self, owner: ast.ClassDef) -> list[ast.Call] | None:
        if any(isinstance(b, ast.Name) and self.only(b) is owner
               for c in self._tree.classes for b in c.bases):  # fmt: skip
            return None
        return [call for call in self._tree.calls if self.class_of(call) is owner]

    def _as_calls(self, uses: Sequence[ast.expr]) -> list[ast.Call] | None:
        parents = [(use, self._tree.parent(use)) for use in uses]
        calls = [p for use, p in parents if isinstance(p, ast.Call) and p.func is use]
        return calls if len(calls) == len(uses) else None

    def _value(self, target: ast.AST) -> ast.AST:
        """What an assignment puts into one of its targets; the target itself where not known."""
        match self._tree.parent(target):
            case ast.Assign(value=value, targets=targets) if target in targets:
                return value
            case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                return value
            case ast.Tuple(elts=elements) as pair:
                match self._tree.parent(pair):
                    case ast.Assign(value=ast.Tuple(elts=values)) if len(values) == len(elements):
                        return values[[e is target for e in elements].index(True)]
        return target

    @cached_property
    def _others(self) -> dict[tuple[Scope | None, str], list[ast.AST]]:
        """What binds names besides assignments and parameters: definitions, imports, `del`."""
        tree = self._tree
        named: list[tuple[ast.AST, str]]
        named = [(one, one.name) for one in (*tree.functions, *tree.classes)]
        named += [(a, a.asname or a.name.partition(".")[0]) for a in tree.every(ast.alias)]
        captures: list[ast.ExceptHandler | ast.MatchAs]
        captures = [*tree.every(ast.ExceptHandler), *tree.every(ast.MatchAs)]
        named += [(one, one.name) for one in captures if one.name]
        named += [(n, n.id) for n in tree.every(ast.Name) if isinstance(n.ctx, ast.Del)]
        found: dict[tuple[Scope | None, str], list[ast.AST]] = defaultdict(list)
        for node, name in named:
            scope = tree.scope(node)
            found[tree.declared.get((scope, name), scope), name].append(node)
        return found

    @cached_property
    def _foreign(self) -> set[str]:
        """The attributes that are set, or deleted, on something else than `self`."""
        return {
            node.attr
            for node in self._tree.every(ast.Attribute)
            if isinstance(node.ctx, ast.Del)
            or (isinstance(node.ctx, ast.Store)
                and not (isinstance(node.value, ast.Name) and node.value.id == "self"
                         and self._tree.class_of(node) is not None))
        }  # fmt: skip
