"""Who is who in a script: its optimizers, model, loaders and training steps.

Lint and patch ask this one model. Lint goes by what names most likely hold (`values`); patch
changes only what is `certain`: followed to where it is made, in this file (`origins`).
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from hotlap.source.kinds import LOADER, OPTIMIZER, PROGRESS
from hotlap.source.names import Names
from hotlap.source.origins import Origins
from hotlap.source.tree import FunctionNode, Loop, Tree, method, names_in, receiver, text
from hotlap.source.values import Values

DATA_LOADER = "torch.utils.data.DataLoader"
_STEP_METHODS = frozenset({"training_step", "compute_loss"})
_LOSS = re.compile(r"(?:^|[._])loss(?:es)?$", re.IGNORECASE)
_BACKWARD = ("backward", "manual_backward")
_LISTS = ("parameters", "named_parameters")


@dataclass(frozen=True)
class Step:
    """Code that runs at each step: a loop, or a function; then `loop` is where it is called.

    `backward` is its first call of that name. `certain`: an optimizer that this file makes steps
    in the same loop, or in the function if there is none.
    """

    body: Loop | FunctionNode
    backward: ast.Call | None
    loop: Loop | None
    script: "ScriptModel" = field(repr=False, compare=False)

    @cached_property
    def certain(self) -> bool:
        """Whether what steps here is an optimizer that this file makes."""
        tree, script = self.script.tree, self.script
        loops = tree.loops(self.backward) if self.backward is not None else ()
        around: list[ast.AST] = [*loops] or [self.body]
        return any(map(script.optimizer_steps, around))


@dataclass(frozen=True)
class BatchLoop:
    """A `for` over a loader; `source` is the expression for the loader itself."""

    loop: ast.For
    source: ast.expr
    names: frozenset[str]
    certain: bool


class ScriptModel:
    """The roles of one file."""

    def __init__(self, tree: Tree, names: Names, values: Values) -> None:
        self.tree, self.names, self.values = tree, names, values
        self.origins = Origins(tree, names, values.flow)

    # optimizers and model

    @cached_property
    def optimizers(self) -> list[ast.Call]:
        """Constructions of torch's optimizers, in the order of the source; all are certain."""
        parts = ((call, self.names.of(call.func).rpartition(".")) for call in self.tree.calls)
        found = [c for c, (at, _, last) in parts if at == "torch.optim" and last[:1].isupper()]
        return sorted(found, key=lambda call: call.lineno)

    @cached_property
    def owners(self) -> list[ast.expr]:
        """The `X` of each `X.parameters()` that an optimizer is constructed with."""
        return [owner for call in self.optimizers for owner in self._owners(call)]

    def _owners(self, optimizer: ast.Call) -> Iterator[ast.expr]:
        given = [k.value for k in optimizer.keywords if k.arg == "params"] or optimizer.args[:1]
        for argument in given:
            for inner in ast.walk(self.origins.only(argument) or argument):
                owner = receiver(inner)
                if owner is not None and method(inner) in _LISTS:
                    yield owner

    @cached_property
    def model(self) -> ast.Call | None:
        """The call that certainly makes the model: what every optimizer's parameters belong to."""
        found = {self.origins.only(owner) for owner in self.owners}
        one = found.pop() if len(found) == 1 else None
        return one if isinstance(one, ast.Call) else None

    @property
    def why_no_model(self) -> str:
        """The reason why the model is not certain."""
        if not self.optimizers:
            return "no torch optimizer is constructed in this file"
        if len({self.origins.only(owner) for owner in self.owners}) > 1:
            names = ", ".join(dict.fromkeys(text(owner) for owner in self.owners))
            return f"optimizers are made for several models ({names})"
        return "it is not certain from this file what the optimizer's parameters belong to"

    def is_model(self, node: ast.AST) -> bool:
        """Whether an expression is certainly the model, and nothing else."""
        return self.model is not None and self.origins.only(node) is self.model

    @cached_property
    def model_calls(self) -> list[ast.Call]:
        """Every call that is certainly one of the model, in the order of the source."""
        return [call for call in self.tree.calls if self.is_model(call.func)]

    # steps

    @cached_property
    def steps(self) -> list[Step]:
        """Every loop or function of a step, in the order of the source."""
        found: dict[ast.AST, Step] = {}
        for call in self._marks():
            function = self.tree.function(call)
            loop = next(self.tree.loops(call), None)
            body = loop or function
            if body is None or (function is not None and function.name == "backward"):
                continue
            backward = call if method(call) != "step" else None
            found.setdefault(body, Step(body, backward, loop or self.loop_of(function), self))
        for function in self.tree.functions:
            if function.name in _STEP_METHODS:
                found.setdefault(function, Step(function, None, None, self))
        return sorted(found.values(), key=lambda step: step.body.lineno)

    def _marks(self) -> Iterator[ast.Call]:
        """The calls that mark a step: `loss.backward()`, `optimizer.step()`."""
        for name in _BACKWARD:
            yield from self.tree.methods.get(name, [])
        for call in self.tree.methods.get("step", []):
            owner = receiver(call)
            if owner is not None and self.values.are(owner, OPTIMIZER):
                yield call
        yield from self.handed_losses

    @cached_property
    def handed_losses(self) -> list[ast.Call]:
        """Calls that go backward and step: `loss_scaler(loss, optimizer, clip_grad=...)`."""
        return [
            call
            for call in self.tree.calls
            if len(call.args) > 1
            and _LOSS.search(text(call.args[0]))
            and any(self.values.are(argument, OPTIMIZER) for argument in call.args[1:])
            and not self.names.of(call.func).startswith("torch.")
        ]

    @cached_property
    def backward_calls(self) -> list[ast.Call]:
        """The `loss.backward()` of every certain step."""
        bodies = {step.body for step in self.steps if step.certain}
        return [
            call
            for call in self.tree.methods.get("backward", [])
            if (next(self.tree.loops(call), None) or self.tree.function(call)) in bodies
        ]

    @property
    def backward_places(self) -> list[ast.Call]:
        """Where to point at a step: its certain `backward()` calls, else all of them."""
        return self.backward_calls or self.tree.methods.get("backward", [])

    def optimizer_steps(self, node: ast.AST) -> list[ast.Call]:
        """The `.step()` calls below a node of optimizers that this file makes."""
        calls = (call for call in ast.walk(node) if method(call) == "step")
        return [c for c in calls if isinstance(c, ast.Call) and self._optimizer(c) is not None]

    def _optimizer(self, call: ast.Call) -> ast.AST | None:
        owner = receiver(call)
        made = self.origins.only(owner) if owner is not None else None
        return made if made in self.optimizers else None

    def loop_of(self, function: ast.AST | None) -> Loop | None:
        """The loop that a step function is called in, or defined in (`closure`)."""
        if function is None:
            return None
        for call in self.values.callers.get(function, []):
            for loop in self.tree.loops(call):
                return loop
        return next(self.tree.loops(function), None)

    def mode_before(self, node: ast.expr, of: Callable[[ast.expr], bool]) -> str:
        """The mode set last above a node in its function, on what `of` accepts; empty: none is."""
        function, here = self.tree.function(node), (node.lineno, node.col_offset)
        for call in self._modes:
            owner = receiver(call)
            if (call.lineno, call.col_offset) >= here or owner is None or not of(owner):
                continue
            if self.tree.function(call) is function and not self.tree.exclusive(call, node):
                value = call.args[0] if call.args else None
                off = isinstance(value, ast.Constant) and value.value is False
                return "eval" if off and method(call) == "train" else method(call)
        return ""

    @cached_property
    def _modes(self) -> list[ast.Call]:
        """The calls of `eval()` and `train()`, the last one first."""
        found = [*self.tree.methods.get("eval", []), *self.tree.methods.get("train", [])]
        return sorted(found, key=lambda call: (call.lineno, call.col_offset), reverse=True)

    # loaders

    @cached_property
    def batch_loops(self) -> list[BatchLoop]:
        """Loops over loaders; certain where this file makes each of them."""
        found = []
        for loop in self.tree.every(ast.For):
            source = self._unwrapped(loop.iter)
            certain = self.is_loader(source)
            if certain or self.values.are(source, LOADER):
                names = _names(loop.target, loop.iter is not source)
                found.append(BatchLoop(loop, source, names, certain))
        return found

    def is_loader(self, node: ast.AST) -> bool:
        """Whether an expression is certainly a DataLoader that this file constructs."""
        found = self.origins.of(node) or ()
        made = [isinstance(o, ast.Call) and self.names.of(o.func) == DATA_LOADER for o in found]
        return bool(made) and all(made)

    def _unwrapped(self, node: ast.expr) -> ast.expr:
        """`loader` of `enumerate(tqdm(loader))`."""
        while isinstance(node, ast.Call) and node.args:
            dotted = self.names.of(node.func)
            if dotted != "enumerate" and not dotted.startswith(PROGRESS):
                break
            node = node.args[0]
        return node


def _names(target: ast.expr, counted: bool) -> frozenset[str]:
    """The names that a batch is unpacked into; the counter of `enumerate` left out."""
    if counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    return frozenset(names_in(target))
