"""Where a module trains and where it evaluates: step regions, epoch loops, evaluations.

A *step region* is what runs at each step: the innermost loop around a `.backward()` or an
optimizer's `.step()`, or the function that holds it, together with the functions of the same file
that it calls, and the forward of the file's models.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hotlap.source import steps
from hotlap.source.conditional import now_and_then
from hotlap.source.differentiated import differentiated
from hotlap.source.flow import Definition
from hotlap.source.grad_mode import GradMode
from hotlap.source.kinds import LOADER, MODEL, OPTIMIZER
from hotlap.source.names import Names
from hotlap.source.project import View
from hotlap.source.tree import Loop, Tree, method, receiver
from hotlap.source.values import Values

_STEP_METHODS = frozenset({"training_step", "compute_loss"})
_BACKWARD = ("backward", "manual_backward")
_AUTOGRAD = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})

Where = Loop | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Region:
    """Code that runs at each step. `loop` is None for a step function called from elsewhere."""

    body: Where
    backward: ast.Call | None
    loop: Loop | None


class Loops:
    """The training and evaluating places of one module."""

    def __init__(
        self, tree: Tree, names: Names, values: Values, project: View | None = None
    ) -> None:
        self._project = project
        self._tree, self._names, self._values = tree, names, values
        self._grad_mode = GradMode(tree, names)

    @cached_property
    def regions(self) -> list[Region]:
        """Every step region, in the order of the source."""
        found: dict[ast.AST, Region] = {}
        for call in self._marks():
            function = self._tree.function(call)
            loop = next(self._tree.loops(call), None)
            body: Where | None = loop or function
            if body is None or (function is not None and function.name == "backward"):
                continue
            backward = call if method(call) != "step" else None
            found.setdefault(body, Region(body, backward, loop or self._loop_of(function)))
        for function in self._tree.functions:
            if function.name in _STEP_METHODS and function not in found:
                found[function] = Region(function, None, None)
        return sorted(found.values(), key=lambda region: region.body.lineno)

    def _marks(self) -> Iterator[ast.Call]:
        """The calls that mark a step: `loss.backward()`, `optimizer.step()`."""
        for name in _BACKWARD:
            yield from self._tree.methods.get(name, [])
        for call in self._tree.methods.get("step", []):
            owner = receiver(call)
            if owner is not None and self._values.are(owner, OPTIMIZER):
                yield call

    @cached_property
    def _step_bodies(self) -> set[ast.AST]:
        bodies: set[ast.AST] = set()
        for region in self.regions:
            bodies.add(region.body)
            if region.loop is not None:
                bodies.add(region.loop)
        bodies |= self._forwards | self._stepped
        for _ in range(3):
            before = len(bodies)
            bodies |= set(self._called_from(bodies))
            if len(bodies) == before:
                break
        return bodies

    def _called_from(self, bodies: set[ast.AST]) -> Iterator[ast.AST]:
        for function, calls in self._called.items():
            if function not in bodies and any(self._lies_in(call, bodies) for call in calls):
                yield function

    @cached_property
    def _stepped(self) -> set[ast.AST]:
        """The functions that a training loop of another file runs at each step."""
        if self._project is None:
            return set()
        return {
            one
            for one in self._tree.functions
            if self._project.stepped(
                steps.key(one.name, isinstance(self._tree.parent(one), ast.ClassDef))
            )
        }

    @cached_property
    def _forwards(self) -> set[ast.AST]:
        """The forward of each model of the file."""
        models = {node for node in self._tree.classes if self._values.class_kind(node) == MODEL}
        return {
            function
            for function in self._tree.functions
            if function.name == "forward" and self._tree.parent(function) in models
        }

    def in_step(self, node: ast.AST) -> bool:
        """Whether a node runs at every step of a training loop, not only under a condition."""
        return self._lies_in(node, self._step_bodies)

    @property
    def any_steps(self) -> bool:
        """Whether anything in the module runs at each step."""
        return bool(self._step_bodies)

    @cached_property
    def differentiated(self) -> set[Definition]:
        """The definitions that a `.backward()` of the module reaches."""
        return differentiated(self._values)

    def training_step(self, node: ast.AST) -> ast.AST | None:
        """The loop or function of a step, forward aside, that a node lies in: the outermost."""
        bodies = self._step_bodies - self._forwards
        found = [above for above in self._tree.above(node) if above in bodies]
        return found[-1] if found and self._around(node, bodies) is not None else None

    def step_of(self, node: ast.AST) -> ast.AST | None:
        """The loop or function, run at each step, that a node lies in."""
        return self._around(node, self._step_bodies)

    def region(self, node: ast.AST) -> Region | None:
        """The step region a node lies in."""
        here = self._around(node, {region.body for region in self.regions})
        return next((region for region in self.regions if region.body is here), None)

    def in_epoch(self, node: ast.AST) -> bool:
        """Whether a node runs once an epoch: in a loop around a step loop, not in the step loop."""
        return bool(self.regions) and self._around_steps(node, 3)

    def _around_steps(self, node: ast.AST, depth: int) -> bool:
        """Whether a loop next around a step loop is around a node, or around what calls it."""
        if self.in_step(node):
            return False
        if set(self._tree.loops(node)) & self._epochs:
            return True
        function = self._tree.function(node)
        callers = self._called.get(function, []) if function is not None and depth else []
        return any(self._around_steps(call, depth - 1) for call in callers)

    def without_grad(self, node: ast.AST, _seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether gradients are switched off around a node, as far as this file tells."""
        if self._grad_mode.off(node):
            return True
        function = self._tree.function(node)
        if function is None or function in _seen:
            return False
        callers = self._called.get(function, [])
        seen = _seen | {function}
        return bool(callers) and all(self.without_grad(call, seen) for call in callers)

    def evaluations(self) -> Iterator[ast.Call]:
        """Calls of a model in a loop over a loader or dataset that never goes backward."""
        for call in self._tree.calls:
            loop = next(self._tree.loops(call), None)
            if not isinstance(loop, ast.For) or not self._over_data(loop.iter):
                continue
            if not self._values.are(call.func, MODEL) or self._in_forward(call):
                continue
            if not self._goes_backward(loop):
                yield call

    def _over_data(self, source: ast.expr) -> bool:
        inner = [source, *(source.args if isinstance(source, ast.Call) else [])]
        return any(self._values.are(node, LOADER) for node in inner)

    def _goes_backward(self, where: ast.AST) -> bool:
        for node in ast.walk(where):
            if method(node) in {"backward", "grad", "manual_backward"}:
                return True
            function = self._values.local(node) if isinstance(node, ast.Call) else None
            if function is not None and any(
                method(inner) == "backward" for inner in ast.walk(function)
            ):
                return True
        function = self._tree.function(where)
        return function is not None and any(
            method(node) == "backward" for node in ast.walk(function)
            if isinstance(node, ast.Call) and next(self._tree.loops(node), None) is None
        )  # fmt: skip

    def _in_forward(self, node: ast.AST) -> bool:
        function = self._tree.function(node)
        return function is not None and function.name in {"forward", "__call__"}

    def _around(self, node: ast.AST, bodies: set[ast.AST]) -> ast.AST | None:
        below = node
        for above in self._tree.above(node):
            if above in bodies:
                head = isinstance(above, ast.For) and below is above.iter
                if not head:
                    return above
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                return None
            below = above
        return None

    def _lies_in(self, node: ast.AST, bodies: set[ast.AST]) -> bool:
        body = self._around(node, bodies)
        return body is not None and not now_and_then(self._tree, node, body)

    @cached_property
    def _called(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls of each function of the file, recursion aside."""
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self._tree.calls:
            function = self._values.local(call)
            if function is not None and not self._tree.inside(call, function):
                found.setdefault(function, []).append(call)
        return found

    def _loop_of(self, function: ast.AST | None) -> Loop | None:
        """The loop that a step function is called in, or defined in (`closure`)."""
        if function is None:
            return None
        for call in self._called.get(function, []):
            for loop in self._tree.loops(call):
                return loop
        return next(self._tree.loops(function), None)

    @cached_property
    def _epochs(self) -> set[ast.AST]:
        """The loops next around a step loop; it may stand in a function they call."""
        found: set[ast.AST] = set()
        for loop in {region.loop for region in self.regions if region.loop is not None}:
            outer = next((above for above in self._tree.loops(loop) if above is not loop), None)
            outer = outer or self._loop_of(self._tree.function(loop))
            if outer is not None and outer not in self._step_bodies:
                found.add(outer)
        return found
