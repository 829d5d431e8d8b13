"""Where a module trains and where it evaluates: step regions, epoch loops, evaluations.

A *step region* is what runs at each step: the innermost loop around a `.backward()`, or the
function that holds it, together with the functions of the same file that it calls.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from hotlap.source.names import Names
from hotlap.source.tree import Loop, Tree, method, text
from hotlap.source.values import LOADER, MODEL, Values

_OFF = frozenset({"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad",
                  "torch.autograd.inference_mode"})  # fmt: skip
_SWITCH = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})
_STEP_METHODS = frozenset({"training_step"})

Where = Loop | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Region:
    """Code that runs at each step. `loop` is None for a step function called from elsewhere."""

    body: Where
    backward: ast.Call | None
    loop: Loop | None


class Loops:
    """The training and evaluating places of one module."""

    def __init__(self, tree: Tree, names: Names, values: Values) -> None:
        self._tree, self._names, self._values = tree, names, values

    @cached_property
    def regions(self) -> list[Region]:
        """Every step region, in the order of the source."""
        found: dict[ast.AST, Region] = {}
        for call in self._tree.calls:
            if method(call) != "backward":
                continue
            loop = next(self._tree.loops(call), None)
            function = self._tree.function(call)
            body: Where | None = loop or function
            if body is None or (function is not None and function.name == "backward"):
                continue
            caller = None if loop else self._calling_loop(function)
            found.setdefault(body, Region(body, call, loop or caller))
        for function in self._tree.functions:
            if function.name in _STEP_METHODS and function not in found:
                found[function] = Region(function, None, None)
        return list(found.values())

    @cached_property
    def _step_bodies(self) -> set[ast.AST]:
        bodies: set[ast.AST] = set()
        for region in self.regions:
            bodies.add(region.body)
            if region.loop is not None:
                bodies.add(region.loop)
        for call in self._tree.calls:
            function = self._local(call)
            if function is not None and self._lies_in(call, bodies):
                bodies.add(function)
        return bodies

    def in_step(self, node: ast.AST) -> bool:
        """Whether a node runs at every step of a training loop, not only now and then."""
        body = self._around(node, self._step_bodies)
        return body is not None and not self._now_and_then(node, body)

    def region(self, node: ast.AST) -> Region | None:
        """The step region a node lies in."""
        here = self._around(node, {region.body for region in self.regions})
        return next((region for region in self.regions if region.body is here), None)

    def in_epoch(self, node: ast.AST) -> bool:
        """Whether a node runs once an epoch: in a loop around a step loop, not in the step loop."""
        if self.in_step(node):
            return False
        return any(self._trains(loop) for loop in self._tree.loops(node)) or self._called_in_epoch(
            node
        )

    def without_grad(self, node: ast.AST) -> bool:
        """Whether gradients are switched off around a node, as far as this file tells."""
        around = list(self._tree.above(node))
        if any(isinstance(a, ast.With | ast.AsyncWith) and self._switches(a) for a in around):
            return True
        function = self._tree.function(node)
        if function is None:
            return self._switched_before(node, self._tree.module)
        if any(self._off(d) for d in function.decorator_list):
            return True
        if self._switched_before(node, function):
            return True
        callers = self._callers(function)
        return bool(callers) and all(self.without_grad(call) for call in callers)

    def evaluations(self) -> Iterator[ast.Call]:
        """Calls of a model in a loop over a loader or dataset that never goes backward."""
        for call in self._tree.calls:
            if not self._values.are(call.func, MODEL) or self._in_forward(call):
                continue
            loop = next(self._tree.loops(call), None)
            if loop is None or self._goes_backward(loop):
                continue
            if isinstance(loop, ast.For) and self._over_data(loop.iter):
                yield call

    def _over_data(self, source: ast.expr) -> bool:
        inner = [source, *(source.args if isinstance(source, ast.Call) else [])]
        return any(self._values.are(node, LOADER) for node in inner)

    def _goes_backward(self, where: ast.AST) -> bool:
        for node in ast.walk(where):
            if method(node) in {"backward", "grad", "manual_backward"}:
                return True
            function = self._local(node) if isinstance(node, ast.Call) else None
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

    def _switches(self, node: ast.With | ast.AsyncWith) -> bool:
        return any(self._off(item.context_expr) for item in node.items)

    def _off(self, node: ast.expr) -> bool:
        """`no_grad()`, `inference_mode()`, `set_grad_enabled(anything but True)`, or their name."""
        called = isinstance(node, ast.Call)
        dotted = self._names.of(node.func if isinstance(node, ast.Call) else node)
        if dotted in _OFF:
            return True
        if not called or dotted not in _SWITCH:
            return False
        first = node.args[0] if isinstance(node, ast.Call) and node.args else None
        return not (isinstance(first, ast.Constant) and first.value is True)

    def _switched_before(self, node: ast.AST, where: ast.AST) -> bool:
        return any(
            isinstance(call, ast.Call)
            and self._names.of(call.func) in _SWITCH
            and self._off(call)
            and isinstance(self._tree.parent(call), ast.Expr)
            and call.lineno < getattr(node, "lineno", 0)
            for call in ast.walk(where)
        )

    def _around(self, node: ast.AST, bodies: set[ast.AST]) -> ast.AST | None:
        for above in self._tree.above(node):
            if above in bodies:
                in_head = isinstance(above, ast.For) and self._tree.inside(node, above.iter)
                return None if in_head else above
            if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
                return None
        return None

    def _lies_in(self, node: ast.AST, bodies: set[ast.AST]) -> bool:
        body = self._around(node, bodies)
        return body is not None and not self._now_and_then(node, body)

    def _now_and_then(self, node: ast.AST, body: ast.AST) -> bool:
        """Under `if step % n`, in a loop's `else`, or after a `break` out of the loop."""
        below = node
        for above in self._tree.above(node):
            if above is body:
                return isinstance(body, ast.For | ast.While) and below in body.orelse
            if isinstance(above, ast.If) and below is not above.test and _seldom(above.test):
                return True
            below = above
        return False

    def _local(self, call: ast.Call) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function of this file that a call runs: `f(...)` or `self.f(...)`."""
        name = text(call.func)
        owner = self._tree.class_of(call) if name.startswith("self.") else None
        wanted = name.removeprefix("self.")
        return self._by_name.get((owner, wanted))

    @cached_property
    def _by_name(self) -> dict[tuple[ast.AST | None, str], ast.FunctionDef | ast.AsyncFunctionDef]:
        return {(self._tree.class_of(f), f.name): f for f in self._tree.functions}

    @cached_property
    def _called(self) -> dict[ast.AST, list[ast.Call]]:
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self._tree.calls:
            function = self._local(call)
            if function is not None and not self._tree.inside(call, function):
                found.setdefault(function, []).append(call)
        return found

    def _callers(self, function: ast.AST) -> list[ast.Call]:
        return self._called.get(function, [])

    def _calling_loop(self, function: ast.AST | None) -> Loop | None:
        for call in self._callers(function) if function is not None else []:
            for loop in self._tree.loops(call):
                return loop
        return None

    def _trains(self, loop: Loop) -> bool:
        """Whether a loop holds a step loop, by itself or through a function it calls."""
        bodies = {region.loop for region in self.regions if region.loop is not None}
        for node in ast.walk(loop):
            if node is not loop and node in bodies:
                return True
            function = self._local(node) if isinstance(node, ast.Call) else None
            if function is not None and any(inner in bodies for inner in ast.walk(function)):
                return True
        return False

    def _called_in_epoch(self, node: ast.AST) -> bool:
        function = self._tree.function(node)
        return function is not None and any(
            self._trains(loop)
            for call in self._callers(function)
            for loop in self._tree.loops(call)
        )


def _seldom(test: ast.expr) -> bool:
    """A test that is true now and then: it counts (`step % 100 == 0`) or looks for an end."""
    return any(
        (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod))
        or method(node) in {"isnan", "isinf", "is_last"}
        for node in ast.walk(test)
    )
