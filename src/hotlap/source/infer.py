"""Passes over a module that carry kinds from values to names, until nothing new is learned."""

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from hotlap.source import kinds as kind
from hotlap.source.expressions import HANDLERS
from hotlap.source.flow import Definition
from hotlap.source.kinds import Kinds
from hotlap.source.names import Names
from hotlap.source.project import View
from hotlap.source.tree import Function, Tree, given, method, receiver, text
from hotlap.source.values import Values

_PASSES = 5
_NUMBER = re.compile(r"value|avg|average|mean|num|dict|meter|log|hist", re.IGNORECASE)
_IMAGES = frozenset({"img", "image", "pic", "sample"})  # what transforms are given, PIL or not
_ABOUT_MODULES = frozenset({"parameters", "train", "eval", "state_dict", "named_parameters"})


def inferred(tree: Tree, names: Names, project: View | None = None) -> Values:
    """The kinds of the names and expressions of a module."""
    values = Values(tree, names, HANDLERS, project)
    Inference(values).run()
    return values


class Inference:
    """Fills the kinds of a module's definitions in."""

    def __init__(self, values: Values) -> None:
        self._values, self._tree = values, values.tree
        self._learned = 0

    def run(self) -> None:
        """Pass until nothing new is learned, or often enough."""
        self._parameters()
        self._uses()
        for _ in range(_PASSES):
            before = self._learned
            self._values.forget()
            self._pass()
            if self._learned == before:
                return
        self._values.forget()

    def _parameters(self) -> None:
        """`x: torch.Tensor`, and the first argument of `forward`, are tensors."""
        for argument in self._tree.every(ast.arg):
            note = argument.annotation
            if note is not None and self._values.names.of(note) == "torch.Tensor":
                self._add(argument, {kind.TENSOR})
        for function in self._tree.functions:
            owner = self._tree.parent(function)
            if function.name == "forward" and isinstance(owner, ast.ClassDef):
                for argument in function.args.args[1:2]:
                    plain = argument.annotation is None and argument.arg not in _IMAGES
                    if plain and self._values.class_kind(owner) == kind.MODEL:
                        self._add(argument, {kind.TENSOR, kind.GRAPH})

    def _uses(self) -> None:
        """A name on which `zero_grad()` is called is an optimizer, and so on."""
        for name, used in kind.USES.items():
            for call in self._tree.methods.get(name, []):
                owner = receiver(call)
                if not isinstance(owner, ast.Name | ast.Attribute) or text(owner) in ("", "self"):
                    continue
                if name == "backward" and call.args and not _is_loss(owner):
                    continue  # accelerator.backward(loss)
                if name == "zero_grad" and self._is_module(owner):
                    continue
                self._used(owner, {used, kind.TENSOR} if name == "backward" else {used})

    def _used(self, owner: ast.Name | ast.Attribute, kinds: set[str]) -> None:
        reaching = self._values.flow.reaching(owner)
        for definition in reaching:
            self._learn(definition.kinds, kinds)
            if kind.GRAPH in kinds:
                self._losses_beside(definition)
        if not reaching:
            self._learn(self._values.loose[None, text(owner)], kinds)

    def _losses_beside(self, definition: Definition) -> None:
        """`loss, loss_parts = compute_loss(...)`: what is called a loss too is a tensor."""
        row, made = self._tree.parent(definition.target), definition.value
        if (
            isinstance(row, ast.Tuple)
            and isinstance(made, ast.Call)
            and not self._values.local(made)
        ):
            for one in row.elts:
                if "loss" in text(one).lower() and not _NUMBER.search(text(one)):
                    self._add(one, {kind.TENSOR})

    def _is_module(self, node: ast.AST) -> bool:
        """`model.zero_grad()`: told apart by what else the name is asked."""
        asked = self._about.get(text(node), set())
        return bool(asked & _ABOUT_MODULES) and "step" not in asked

    @cached_property
    def _about(self) -> dict[str, set[str]]:
        """What each name is asked, of the methods that tell modules and optimizers apart."""
        found: dict[str, set[str]] = {}
        for name in (*_ABOUT_MODULES, "step"):
            for call in self._tree.methods.get(name, []):
                found.setdefault(text(receiver(call) or call), set()).add(name)
        return found

    def _pass(self) -> None:
        for target, value in self._assigned():
            self._assign(target, value)
        for added in self._tree.every(ast.AugAssign):
            self._augmented(added)
        for target, source in self._looped():
            self._loop(target, source)
        for call in self._tree.calls:
            self._passed(call)
        for call in (*self._tree.methods.get("append", []), *self._tree.methods.get("extend", [])):
            self._appended(call)

    def _assigned(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        for node in self._tree.every(ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        for noted in self._tree.every(ast.AnnAssign):
            if noted.value is not None:
                yield noted.target, noted.value
        yield from ((walrus.target, walrus.value) for walrus in self._tree.every(ast.NamedExpr))

    def _looped(self) -> Iterator[tuple[ast.expr, ast.expr]]:
        yield from ((loop.target, loop.iter) for loop in self._tree.every(ast.For))
        yield from ((loop.target, loop.iter) for loop in self._tree.every(ast.AsyncFor))
        yield from ((loop.target, loop.iter) for loop in self._tree.every(ast.comprehension))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Tuple | ast.List):
            self._add(target, self._values.kinds(value))
            return
        for one, its in self._unpacked(target.elts, value):
            if isinstance(its, ast.expr):
                self._assign(one, its)
            else:
                self._add(one, its)

    def _unpacked(
        self, targets: list[ast.expr], value: ast.expr
    ) -> Iterator[tuple[ast.expr, ast.expr | Kinds]]:
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(targets):
            yield from zip(targets, value.elts, strict=True)
            return
        function = self._values.local(value) if isinstance(value, ast.Call) else None
        tuples = self._values.tuples(function, len(targets)) if function is not None else []
        if tuples:
            for elements in tuples:
                yield from zip(targets, elements, strict=True)
            return
        if _observes(value):
            yield targets[0], frozenset({kind.ARRAY})
            return
        kinds = self._values.kinds(value) - {kind.SEVERAL}
        for one in targets:
            yield one, kinds

    def _augmented(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name | ast.Attribute):
            return
        found = self._values.kinds(node.value)
        if isinstance(node.value, ast.List | ast.ListComp):
            found = found | ({kind.SEVERAL} if kind.TENSOR in found else kind.NONE)
        earlier = self._values.of_variable(node.target)
        if kind.HOST not in earlier and kind.TENSOR in earlier:
            found = found - {kind.HOST}
        self._add(node.target, (earlier | found) & (kind.DATA | {kind.ARRAY, kind.ARRAYS}))

    def _loop(self, target: ast.expr, source: ast.expr) -> None:
        """The names of `for i, (x, y) in enumerate(loader)`."""
        call = source if isinstance(source, ast.Call) else None
        dotted = self._values.names.of(call.func) if call else ""
        if call and dotted in {"enumerate", "zip"}:
            self._numbered(target, call, dotted)
        elif call and call.args and dotted.startswith(kind.PROGRESS):
            self._loop(target, call.args[0])
        elif method(source) == "items":
            owner = receiver(source)
            if isinstance(target, ast.Tuple) and owner is not None and len(target.elts) == 2:
                self._add(target.elts[1], self._element(owner))
        elif method(source) not in {"keys", "parameters", "named_parameters", "children"}:
            kinds = self._element(source)
            names = list(names_of(target))
            for name in names:
                self._add(name, kinds - {kind.SEVERAL} if len(names) > 1 else kinds)

    def _numbered(self, target: ast.expr, call: ast.Call, dotted: str) -> None:
        if not isinstance(target, ast.Tuple) or not call.args:
            return
        pairs = [(target.elts[-1], call.args[0])]
        if dotted == "zip":
            pairs = list(zip(target.elts, call.args, strict=False))
        for one, its in pairs:
            self._loop(one, its)

    def _element(self, source: ast.expr) -> Kinds:
        """What one item of an iterable is."""
        kinds = self._values.kinds(source)
        if kind.LOADER in kinds:
            return self._values.batch
        if kind.ARRAYS in kinds:
            return frozenset({kind.ARRAY})
        return kinds & (kind.DATA - {kind.SEVERAL}) if kind.TENSOR in kinds else kind.NONE

    def _passed(self, call: ast.Call) -> None:
        """What a call of a function or class of this file passes, its parameters are."""
        function = self._values.local(call) or self._constructor(call)
        if function is None:
            return
        known = function.args
        parameters = {one.arg: one for one in (*known.posonlyargs, *known.args, *known.kwonlyargs)}
        for name, value in given(call, function).items():
            if name in parameters:
                self._add(parameters[name], self._values.kinds(value))

    def _constructor(self, call: ast.Call) -> Function | None:
        """The `__init__` of the class of this file that a call makes an object of."""
        made = self._values.local_class(call.func)
        return self._values.functions.get((made, "__init__")) if made is not None else None

    def _appended(self, call: ast.Call) -> None:
        """`rows.append(array)`: rows are several of them."""
        owner = receiver(call)
        if not isinstance(owner, ast.Name | ast.Attribute) or len(call.args) != 1:
            return
        kinds = self._values.kinds(call.args[0])
        found = {kind.ARRAYS} if kind.ARRAY in kinds else set()
        if kind.TENSOR in kinds:
            found |= (kinds & kind.DATA) | {kind.SEVERAL}
        for definition in self._values.flow.every(owner) if found else []:
            self._learn(definition.kinds, found)

    def _add(self, target: ast.AST, kinds: Kinds | set[str]) -> None:
        definition = self._values.flow.of_target.get(target)
        if definition is not None:
            self._learn(definition.kinds, kinds)

    def _learn(self, known: set[str], kinds: Kinds | set[str]) -> None:
        before = len(known)
        known |= kinds
        self._learned += len(known) - before


def _observes(value: ast.expr) -> bool:
    """`env.reset()`, `envs.step(actions)`: the observation, an array, comes first."""
    owner = text(receiver(value) or value).rpartition(".")[2].lower()
    return method(value) in {"reset", "step"} and owner.startswith("env")


def names_of(target: ast.expr) -> Iterator[ast.expr]:
    """The names of a target, those of nested tuples included."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from names_of(one)
    elif isinstance(target, ast.Starred):
        yield from names_of(target.value)
    else:
        yield target


def _is_loss(owner: ast.AST) -> bool:
    return "loss" in text(owner).lower()
