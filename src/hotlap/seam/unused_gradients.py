"""Gradients that no optimizer uses: found by watching, then no longer computed.

A generator's step computes the gradients of the discriminator's parameters, which `zero_grad` drops
before the discriminator's own step; a frozen part without `requires_grad_(False)` has gradients
that nobody ever reads. Each call of `backward` (by the user's lines that lead to it) is watched: a
parameter's gradient is used when an optimizer with it steps, or its norm is clipped, before it is
cleared. What was dropped `ENOUGH` times and never used by then is left out from there on, by the
`inputs` of `torch.autograd.backward`. The other gradients are computed by the same operators.
"""

import ast
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.optim.optimizer import Optimizer

from hotlap.seam.moves import Context
from hotlap.seam.patch import Maker, listed, replaced
from hotlap.seam.process import rank_and_world
from hotlap.seam.steps import bare_step_hooks
from hotlap.seam.where import is_users_file, short, users_frame

ENOUGH = 3
"""Times that a gradient must have been dropped before it is taken for unused."""
QUIET_CALLS, WATCHED_CALLS = 16, 96
"""Calls of backward after which a line is no longer watched: nothing was dropped, or something."""
FRAMES = 3
READS = {"grad", "register_hook", "register_full_backward_hook", "register_backward_hook",
         "register_post_accumulate_grad_hook", "register_multi_grad_hook"}  # fmt: skip
CLIPS = ("clip_grad_norm_", "clip_grad_value_")

Line = tuple[tuple[CodeType, int], ...]
Tensors = Tensor | Iterable[Tensor]
"""The user's calls that led to a backward, the innermost first."""


@contextmanager
def unused_gradients(context: Context) -> Iterator[None]:
    """Leave out the gradients that were seen to be dropped."""
    left_out: dict[Line, dict[int, nn.Parameter]] = {}

    def found(line: Line, unused: list[nn.Parameter]) -> None:
        reader = gradient_reader()
        if reader:
            context.inert(f"{reader} reads gradients or hooks into them")
        elif rank_and_world()[1] > 1:
            context.inert("several ranks exchange all gradients")
        else:
            left_out[line] = {id(parameter): parameter for parameter in unused}

    def inputs(line: Line, tensors: Tensors) -> list[Tensor] | None:
        unused = left_out.get(line)
        leaves = _leaves(tensors) if unused else None
        if not unused or leaves is None:
            return None
        wanted = [leaf for leaf in leaves if id(leaf) not in unused]
        if len(wanted) == len(leaves) or not wanted:
            return None
        code, _ = line[0]
        context.held(f"{len(leaves) - len(wanted)} gradients in {code.co_name}")
        return wanted

    used = partial(_take_again, left_out, context)
    with _watching(GradientUse(found, used), inputs, context.isolated):
        yield


def _take_again(
    left_out: dict[Line, dict[int, nn.Parameter]], context: Context, parameters: Iterable[object]
) -> None:
    """Leave out no more what an optimizer uses from now on: after unfreezing, in a second phase.

    Where another line computes the gradient for it, there is one.
    """
    taken = {id(p) for p in parameters if getattr(p, "grad", p) is None} if left_out else set()
    for line in [at for at, unused in left_out.items() if not taken.isdisjoint(unused)]:
        del left_out[line]
        context.inert("an optimizer began to use gradients that were left out until then")


@contextmanager
def noting_unused(found: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call `found()` where a backward's unused gradients are recognised, from below its line.

    Yields what ends the watching, also from within an optimizer's step.
    """

    def note(_: Line, __: list[nn.Parameter]) -> None:
        found()

    with _watching(GradientUse(note), lambda *_: None, partial(suppress, Exception)) as stop:
        yield stop


class GradientUse:
    """Which line's gradients are used. `found(line, parameters)` is called once for a line.

    `at_use(parameters)` is called each time that an optimizer or a clipping has read gradients.
    """

    def __init__(
        self,
        found: Callable[[Line, list[nn.Parameter]], None],
        at_use: Callable[[list[object]], None] = lambda _: None,
    ) -> None:
        self._found = found
        self._at_use = at_use
        self._settled: set[Line] = set()
        self._calls: Counter[Line] = Counter()
        self._waiting: dict[int, dict[Line, bool]] = {}
        self._parameters: dict[int, nn.Parameter] = {}
        self._dropped: Counter[tuple[Line, int]] = Counter()
        self._used: set[tuple[Line, int]] = set()
        self._optimized: set[int] = set()
        self._dropping: set[Line] = set()

    def watches(self, line: Line) -> bool:
        """Whether more is to be learned of this line."""
        return line not in self._settled

    def computed(self, line: Line, tensors: Tensors) -> None:
        """A backward is about to compute the gradients of the graph behind these tensors."""
        leaves = _leaves(tensors)
        self._calls[line] += 1
        most = WATCHED_CALLS if line in self._dropping else QUIET_CALLS
        if leaves is None or self._calls[line] > most:
            self._settled.add(line)
            return
        for parameter in leaves:
            if isinstance(parameter, nn.Parameter):
                self._add(line, parameter)
        self._judge(line)

    def _add(self, line: Line, parameter: nn.Parameter) -> None:
        key = id(parameter)
        self._parameters[key] = parameter
        if parameter.grad is None:
            self.cleared([parameter])
        waiting = self._waiting.setdefault(key, {})
        if key not in self._optimized and waiting.get(line) is False:
            self._drop(line, key)  # added to, and there is no optimizer that could look at it
        waiting[line] = False

    def used(self, parameters: Iterable[object]) -> None:
        """These parameters' gradients were read, for a step or for their norm."""
        parameters = list(parameters)
        self._at_use(parameters)
        for parameter in parameters:
            for line in self._waiting.get(id(parameter), {}):
                self._waiting[id(parameter)][line] = True
                self._used.add((line, id(parameter)))

    def optimized(self, parameters: Iterable[object]) -> None:
        """An optimizer has taken these parameters."""
        self._optimized.update(map(id, parameters))

    def _drop(self, line: Line, key: int) -> None:
        self._dropped[line, key] += 1
        self._dropping.add(line)

    def cleared(self, parameters: Iterable[object]) -> None:
        """These parameters' gradients were dropped."""
        for parameter in parameters:
            for line, used in self._waiting.pop(id(parameter), {}).items():
                if not used:
                    self._drop(line, id(parameter))

    def _judge(self, line: Line) -> None:
        unused = [
            self._parameters[key]
            for (at, key), times in self._dropped.items()
            if at == line and times >= ENOUGH and (line, key) not in self._used
        ]
        plain = [p for p in unused if not (p._backward_hooks or _post_hooks(p))]
        if plain:
            self._settled.add(line)
            self._found(line, plain)


def _post_hooks(parameter: nn.Parameter) -> object:
    return getattr(parameter, "_post_accumulate_grad_hooks", None)


Inputs = Callable[[Line, Tensors], list[Tensor] | None]
Isolated = Callable[[], AbstractContextManager[object]]


@contextmanager
def _watching(use: GradientUse, inputs: Inputs, isolated: Isolated) -> Iterator[Callable[[], None]]:
    """Show `use` each backward, step, clipping and clearing; restrict a backward to `inputs`."""

    def stepped(optimizer: Optimizer, *_: object) -> None:
        with isolated():
            use.used(_parameters_of(optimizer))

    telling = partial(_telling, isolated)
    zeroed = telling(lambda optimizer: use.cleared(_parameters_of(optimizer)))
    taken = telling(lambda optimizer: use.optimized(_parameters_of(optimizer)), after=True)
    changes: list[tuple[object, str, Maker]] = [
        (torch.autograd, "backward", _restricting(use, inputs, isolated)),
        (Optimizer, "zero_grad", zeroed),
        (nn.Module, "zero_grad", telling(lambda module: use.cleared(module.parameters()))),
        (Optimizer, "add_param_group", taken),
    ]
    clipped = telling(lambda p: use.used([p] if isinstance(p, Tensor) else p))
    changes += [(owner, name, clipped) for owner in (nn.utils, nn.utils.clip_grad)
                for name in CLIPS]  # fmt: skip
    with bare_step_hooks(None, stepped) as put_hook, ExitStack() as stack:
        for owner, name, make in changes:
            stack.enter_context(replaced(owner, name, make))

        def stop() -> None:
            put_hook(lambda *_: None)
            stack.close()

        yield stop


def _restricting(use: GradientUse, inputs: Inputs, isolated: Isolated) -> Maker:
    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def backward(tensors: Tensors, *args: object, **kwargs: object) -> object:
            tensors = listed(tensors)
            with isolated():
                line = _line(sys._getframe(1))
                if line and _restrictable(args, kwargs):
                    if use.watches(line):
                        use.computed(line, tensors)
                    wanted = inputs(line, tensors)
                    if wanted is not None:
                        kwargs["inputs"] = wanted
            return original(tensors, *args, **kwargs)

        return backward

    return make


def _telling(isolated: Isolated, act: Callable[[Any], None], *, after: bool = False) -> Maker:
    """Call `act` with the first argument of each call, before or after it."""

    def make(original: Callable[..., object]) -> object:
        @wraps(original)
        def call(first: object, *args: object, **kwargs: object) -> object:
            given = listed(first)
            if after:
                original(given, *args, **kwargs)
            with isolated():
                act(given)
            return None if after else original(given, *args, **kwargs)

        return call

    return make


def _restrictable(args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    """Whether a call of `backward` gives no inputs of its own and builds no second graph.

    The arguments behind the tensors are grad_tensors, retain_graph, create_graph,
    grad_variables and inputs.
    """
    second = kwargs.get("create_graph") or (len(args) > 2 and args[2])
    own = kwargs.get("inputs") is not None or len(args) > 3
    return not second and not own and torch._C._current_graph_task_id() == -1


def _line(frame: FrameType | None) -> Line:
    found: list[tuple[CodeType, int]] = []
    while len(found) < FRAMES and (frame := users_frame(frame)) is not None:
        found.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def _parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _leaves(tensors: Tensors) -> list[Tensor] | None:
    """The leaves that a backward from these tensors reaches.

    None where Python code runs in the backward (checkpoints, hooks, compiled graphs): whether it
    does anything besides is not known.
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
    seen = set(nodes)
    found: list[Tensor] = []
    while nodes:
        node = nodes.pop()
        if isinstance(node, BackwardCFunction):
            return None
        if hasattr(node, "variable"):
            found.append(node.variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return found


def gradient_reader() -> str:
    """The first line of the user's loaded files that reads gradients itself; empty if none does.

    Gradients of inputs do not count (`x.grad` where the same function has `x.requires_grad_()`): a
    sampler or an attack wants those alone. A program that has no file (an interactive one) may read
    gradients anywhere.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if main is None:
        return "the program, which has no file to be looked at,"
    files = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    for file in filter(None, files | {main}):
        if file.endswith(".py") and is_users_file(file) and os.path.exists(file):
            for node in _reads(ast.parse(Path(file).read_bytes())):
                return f"{short(file)}:{getattr(node, 'lineno', 0)}"
    return ""


def _reads(tree: ast.AST) -> Iterator[ast.AST]:
    """What reads gradients in a module: function by function."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        nodes: list[ast.AST] = []
        inside = list(ast.iter_child_nodes(waiting.pop()))
        while inside:
            node = inside.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                waiting.append(node)
            else:
                nodes.append(node)
                inside += ast.iter_child_nodes(node)
        yield from _reads_within(nodes)


def _reads_within(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of one function that read gradients of anything but its own inputs."""
    inputs: set[str] | None = None
    for node in nodes:
        name = getattr(node, "attr", getattr(node, "value", None))
        if not isinstance(name, str) or name not in READS or _of_autograd(node):
            continue
        inputs = _inputs(nodes) if inputs is None else inputs
        if name != "grad" or _name(getattr(node, "value", None)) not in inputs:
            yield node


def _inputs(nodes: list[ast.AST]) -> set[str]:
    """The names that are made to require gradients, and are no parameters of a model.

    Which may be bound by a loop over parameters or stand for an attribute: such names are left out.
    """
    found: set[str] = set()
    others: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.For | ast.comprehension):
            others |= {_name(part) for part in ast.walk(node.target)}
        elif isinstance(node, ast.Assign):
            names = {_name(target) for target in node.targets}
            marked = any(_requires_grad(part) for part in ast.walk(node.value))
            found |= names if marked else set()
            others |= names if isinstance(node.value, ast.Attribute | ast.Subscript) else set()
            found |= {_name(getattr(t, "value", None)) for t in node.targets if _requires_grad(t)}
        elif _requires_grad(node) and isinstance(node, ast.Attribute):
            found.add(_name(node.value))
    return found - others - {""}


def _requires_grad(node: ast.AST | None) -> bool:
    """Whether it is `x.requires_grad_`, `x.requires_grad` or `requires_grad=` of a call."""
    name = getattr(node, "attr", getattr(node, "arg", ""))
    return name in {"requires_grad_", "requires_grad"} and not isinstance(node, ast.arg)


def _name(node: ast.AST | None) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _of_autograd(node: ast.AST) -> bool:
    """Whether it is `torch.autograd.grad`, which returns gradients and stores none."""
    value = getattr(node, "value", None)
    name = getattr(value, "attr", getattr(value, "id", ""))
    return isinstance(node, ast.Attribute) and name in {"autograd", "torch"}
