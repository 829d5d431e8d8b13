"""The actors of a training script, as far as they are certain: model, optimizers, loaders."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hotlap.source.module import Source
from hotlap.source.patch.flow import Flow, Function
from hotlap.source.tree import method, receiver

LOADER = "torch.utils.data.DataLoader"
_LISTS = ("parameters", "named_parameters")


@dataclass(frozen=True)
class Step:
    """One training step: its `.backward()` call, and the block of statements it stands in."""

    backward: ast.Call
    statement: ast.stmt
    block: list[ast.stmt]


@dataclass(frozen=True)
class BatchLoop:
    """A `for` over a DataLoader; `source` is the expression for the loader itself."""

    loop: ast.For
    source: ast.expr
    names: frozenset[str]


class Scene:
    """Who is who in one file."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tree = source.tree
        self.flow = Flow(source)

    # optimizers and model

    @cached_property
    def optimizers(self) -> list[ast.Call]:
        """Constructions of torch's optimizers."""
        found = (c for c in self._tree.calls if self._is_optimizer(c))
        return sorted(found, key=lambda c: c.lineno)

    def _is_optimizer(self, call: ast.Call) -> bool:
        dotted = self._source.names.of(call.func)
        head, _, last = dotted.rpartition(".")
        return head == "torch.optim" and last[:1].isupper()

    @cached_property
    def owners(self) -> list[ast.expr]:
        """The `X` of each `X.parameters()` that an optimizer is constructed with."""
        return [owner for call in self.optimizers for owner in self._owners(call)]

    def _owners(self, optimizer: ast.Call) -> Iterator[ast.expr]:
        given = [k.value for k in optimizer.keywords if k.arg == "params"] or optimizer.args[:1]
        for argument in given:
            value = self.flow.only(argument) or argument
            yield from self._listed(value)

    def _listed(self, node: ast.AST) -> Iterator[ast.expr]:
        for inner in ast.walk(node):
            owner = receiver(inner)
            if owner is not None and method(inner) in _LISTS:
                yield owner

    @cached_property
    def model(self) -> ast.Call | None:
        """The call that makes the model: what every optimizer's parameters belong to."""
        found = {self.flow.only(owner) for owner in self.owners}
        one = found.pop() if len(found) == 1 else None
        return one if isinstance(one, ast.Call) else None

    @property
    def why_no_model(self) -> str:
        """The reason why the model is not certain."""
        if not self.optimizers:
            return "no torch optimizer is constructed in this file"
        if len({self.flow.only(owner) for owner in self.owners}) > 1:
            return "the optimizers have the parameters of several models"
        return "it is not certain from this file what the optimizer's parameters belong to"

    def is_model(self, node: ast.AST) -> bool:
        """Whether an expression is the model, and nothing else."""
        return self.model is not None and self.flow.only(node) is self.model

    @cached_property
    def model_calls(self) -> list[ast.Call]:
        """Every call of the model, in the order of the source."""
        return [call for call in self._tree.calls if self.is_model(call.func)]

    # steps

    @cached_property
    def steps(self) -> list[Step]:
        """Every `.backward()` of a loss, with its block."""
        calls = [c for c in self._tree.calls if method(c) == "backward"]
        places = [(c, self.statement(c)) for c in calls]
        return [Step(c, s, block) for c, s in places
                if (block := self.block(s)) is not None and self._in_step_loop(s)]  # fmt: skip

    def _in_step_loop(self, statement: ast.stmt) -> bool:
        """Whether an optimizer steps in the same loop, or in the function if there is none."""
        around: list[ast.AST] = list(self._tree.loops(statement))
        function = self._tree.function(statement)
        if not around and function is not None:
            around.append(function)
        return any(self.steps_in(node) for node in around)

    def steps_in(self, node: ast.AST) -> list[ast.Call]:
        """The `.step()` calls of optimizers below a node."""
        return [c for c in ast.walk(node) if isinstance(c, ast.Call) and self.is_step(c)]

    def is_step(self, call: ast.Call) -> bool:
        """Whether a call is `optimizer.step()`."""
        owner = receiver(call)
        if owner is None or method(call) != "step":
            return False
        return isinstance(made := self.flow.only(owner), ast.Call) and made in self.optimizers

    # loaders

    @cached_property
    def batch_loops(self) -> list[BatchLoop]:
        """Loops over DataLoaders that this file constructs."""
        loops = [n for n in self._tree.nodes if isinstance(n, ast.For)]
        found = []
        for loop in loops:
            source = self._unwrapped(loop.iter)
            if self.is_loader(source):
                found.append(BatchLoop(loop, source, _names(loop.target, loop.iter is not source)))
        return found

    def is_loader(self, node: ast.AST) -> bool:
        """Whether an expression is a DataLoader that this file constructs."""
        found = self.flow.origins(node)
        return bool(found) and all(
            isinstance(o, ast.Call) and self._source.names.of(o.func) == LOADER
            for o in found or ()
        )  # fmt: skip

    def _unwrapped(self, node: ast.expr) -> ast.expr:
        """`loader` of `enumerate(tqdm(loader))`."""
        while isinstance(node, ast.Call) and node.args:
            dotted = self._source.names.of(node.func)
            if dotted != "enumerate" and not dotted.startswith("tqdm."):
                break
            node = node.args[0]
        return node

    # places

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement a node stands in."""
        while not isinstance(node, ast.stmt):
            above = self._tree.parent(node)
            assert above is not None
            node = above
        return node

    def block(self, statement: ast.stmt) -> list[ast.stmt] | None:
        """The statements among which one stands."""
        parent = self._tree.parent(statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return None

    def function(self, node: ast.AST) -> Function | None:
        """The function a node stands in."""
        return self._tree.function(node)


def _names(target: ast.expr, counted: bool) -> frozenset[str]:
    """The names that a batch is unpacked into; the counter of `enumerate` left out."""
    if counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    return frozenset(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
