"""What runs at each step and each epoch, and where gradients are off.

At each step runs what the script's steps hold, the functions of the same file that it calls, and
the forward of the file's models.
"""

import ast
from collections.abc import Iterator
from functools import cached_property

from hotlap.source import steps
from hotlap.source.conditional import now_and_then
from hotlap.source.flow import Definition
from hotlap.source.grad_mode import GradMode
from hotlap.source.kinds import MODEL
from hotlap.source.project import View
from hotlap.source.script_model import ScriptModel, Step
from hotlap.source.tree import FunctionNode, receiver
from hotlap.source.values import Values

BACKWARD = ("backward", "manual_backward", "grad")


class Loops:
    """The training and evaluating places of one module."""

    def __init__(self, script: ScriptModel, project: View | None = None) -> None:
        self._project, self._script = project, script
        self._tree, self._values = script.tree, script.values
        self._grad_mode = GradMode(script.tree, script.names)

    @cached_property
    def _step_bodies(self) -> set[ast.AST]:
        bodies: set[ast.AST] = set()
        for region in self._script.steps:
            bodies.add(region.body)
            if region.loop is not None:
                bodies.add(region.loop)
        bodies |= self._forwards | self._stepped | self._stepping
        for _ in range(3):
            before = len(bodies)
            bodies |= set(self._called_from(bodies))
            if len(bodies) == before:
                break
        return bodies

    def _called_from(self, bodies: set[ast.AST]) -> Iterator[ast.AST]:
        for function, calls in self._values.callers.items():
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
    def _stepping(self) -> set[ast.AST]:
        """The loops that call a function of another file which makes a step."""
        named = self._project.steppers if self._project is not None else frozenset()
        if not named:
            return set()
        loops = (
            next(self._tree.loops(call), None)
            for call in self._tree.calls
            if steps.called_by(self._script.names, call) in named and not self._values.local(call)
        )
        return {loop for loop in loops if loop is not None}

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
        return _differentiated(self._values)

    def training_step(self, node: ast.AST) -> ast.AST | None:
        """The loop or function of a step, forward aside, that a node lies in: the outermost."""
        bodies = self._step_bodies - self._forwards
        found = [above for above in self._tree.above(node) if above in bodies]
        return found[-1] if found and self._around(node, bodies) is not None else None

    def step_of(self, node: ast.AST) -> ast.AST | None:
        """The loop or function, run at each step, that a node lies in."""
        return self._around(node, self._step_bodies)

    def region(self, node: ast.AST) -> Step | None:
        """The step region a node lies in."""
        here = self._around(node, {region.body for region in self._script.steps})
        return next((region for region in self._script.steps if region.body is here), None)

    def in_epoch(self, node: ast.AST) -> bool:
        """Whether a node runs once an epoch: in a loop around a step loop, not in the step loop."""
        return bool(self._script.steps) and self._around_steps(node, 3)

    def _around_steps(self, node: ast.AST, depth: int) -> bool:
        """Whether a loop next around a step loop is around a node, or around what calls it."""
        if self.in_step(node):
            return False
        if set(self._tree.loops(node)) & self._epochs:
            return True
        function = self._tree.function(node)
        callers = self._values.callers.get(function, []) if function is not None and depth else []
        return any(self._around_steps(call, depth - 1) for call in callers)

    def without_grad(self, node: ast.AST, _seen: frozenset[ast.AST] = frozenset()) -> bool:
        """Whether gradients are switched off around a node, as far as this file tells."""
        if self._grad_mode.off(node):
            return True
        function = self._tree.function(node)
        if function is None or function in _seen:
            return False
        callers = self._values.callers.get(function, [])
        seen = _seen | {function}
        return bool(callers) and all(self.without_grad(call, seen) for call in callers)

    def _around(self, node: ast.AST, bodies: set[ast.AST]) -> ast.AST | None:
        below = node
        for above in self._tree.above(node):
            if above in bodies:
                head = isinstance(above, ast.For) and below is above.iter
                if not head:
                    return above
            if isinstance(above, FunctionNode):
                return None
            below = above
        return None

    def _lies_in(self, node: ast.AST, bodies: set[ast.AST]) -> bool:
        body = self._around(node, bodies)
        if body is None:
            return False
        return not now_and_then(self._tree, node, body, self._backward.get(body))

    @cached_property
    def _backward(self) -> dict[ast.AST, ast.Call]:
        """The first `backward()` of each step."""
        return {step.body: step.backward for step in self._script.steps if step.backward}

    @cached_property
    def _epochs(self) -> set[ast.AST]:
        """The loops next around a step loop; it may stand in a function they call."""
        found: set[ast.AST] = set()
        for loop in {region.loop for region in self._script.steps if region.loop is not None}:
            outer = next((above for above in self._tree.loops(loop) if above is not loop), None)
            outer = outer or self._script.loop_of(self._tree.function(loop))
            if outer is not None and outer not in self._step_bodies:
                found.add(outer)
        return found


def _differentiated(values: Values) -> set[Definition]:
    """The definitions that a `.backward()` reaches, by way of what is computed from them."""
    found: set[Definition] = set()
    waiting = list(_starts(values))
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Name | ast.Attribute):
                fresh = [d for d in values.flow.every(node) if d not in found]
                found.update(fresh)
                waiting += [part for d in fresh for part in _behind(values, d)]
    return found


def _starts(values: Values) -> Iterator[ast.AST]:
    for call in (c for name in BACKWARD for c in values.tree.methods.get(name, [])):
        yield from call.args
        owner = receiver(call)
        if owner is not None:
            yield owner


def _behind(values: Values, definition: Definition) -> Iterator[ast.AST]:
    """What a definition's value is computed from."""
    if definition.value is not None:
        yield definition.value
    if definition.source is not None:
        yield definition.source
    if isinstance(definition.target, ast.Name):
        for call in values.tree.methods.get("append", []):
            owner = receiver(call)
            if isinstance(owner, ast.Name) and definition in values.flow.reaching(owner):
                yield from call.args
