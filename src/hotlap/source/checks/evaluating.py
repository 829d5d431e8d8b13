"""Evaluations, and whether they record gradients that nobody uses."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from hotlap.core.technique import Technique
from hotlap.source.checks.context import (
    callers,
    calls_within,
    goes_backward,
    in_comprehension,
    in_test,
    methods_within,
    place,
    takes_gradients,
    within,
)
from hotlap.source.infer import names_of
from hotlap.source.kinds import CRITERION, LOADER, LOSSES, MODEL
from hotlap.source.module import Source
from hotlap.source.tree import FunctionNode, method, text

_EVALUATES = re.compile(r"(?:^|_)(?:eval|evaluate|evaluation|valid|validate|validation|test|val|"
                        r"infer|inference|predict)(?:_|$)")  # fmt: skip
_NO_GRAD = re.compile(r"grad|infer", re.IGNORECASE)
_SHOWS = re.compile(r"(?:^|\.)(?:save_image|make_grid|imshow|imsave|add_images?|imwrite|"
                    r"plot_\w+|show_\w+|save_\w*(?:sample|image|grid)\w*)$")  # fmt: skip
_KEEPS = frozenset({"detach", "cpu", "numpy", "view", "reshape", "mul", "add", "clamp", "permute",
                    "squeeze", "unsqueeze", "transpose", "float", "to", "clone"})  # fmt: skip
_REDUCES = frozenset({"sum", "mean", "softmax", "sigmoid", "data"})
_SQUASHES = frozenset({"softmax", "log_softmax", "sigmoid"})
_NUMBERS = frozenset({"item", "tolist", "argmax", "argmin", "topk", "eq", "ne", "round"})
_CHOOSES = frozenset({"torch.argmax", "torch.argmin", "torch.multinomial", "torch.topk"})
_STACKS = frozenset({"torch.cat", "torch.stack", "numpy.transpose", "torch.clamp"})
_TRAINING = re.compile(r"train|phase|mode|optim|update|backward|split", re.IGNORECASE)
_NEVER = frozenset({"forward", "__call__", "training_step"})
_MODES = frozenset({"eval", "train", "parameters", "state_dict", "to", "cuda"})
STEPS = frozenset({"validation_step", "test_step", "predict_step", "prediction_step"})


def eval_with_grad(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A forward in an evaluation that records gradients which nobody uses."""
    yield from unused_graphs(source)


@lru_cache(maxsize=2)
def unused_graphs(source: Source) -> list[ast.Call]:
    """The forwards in evaluations whose gradients are on, and which nobody uses."""
    found = [*_samples(source), *_by_flag(source)]
    found += [
        call
        for call in evaluations(source)
        if _judged(source, call) or (over_loader(source, call) and _read_out(source, call))
    ]
    return [c for c in found if not (_maybe_off(source, c) or in_test(source, c))]


def _samples(source: Source) -> Iterator[ast.Call]:
    """Forwards whose result is only shown or saved: `save_image(generator(noise))`."""
    for call in source.tree.calls:
        if method(call) in _MODES or not source.values.are(call.func, MODEL):
            continue
        function = source.tree.function(call)
        if function is not None and function.name in _NEVER:
            continue
        parent = source.tree.parent(call)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            name = parent.targets[0]
            if isinstance(name, ast.Name) and _only_shown(source, name):
                yield call
        elif _shown(source, call):
            yield call


def _only_shown(source: Source, name: ast.Name, depth: int = 2) -> bool:
    """Whether every use of a name shows it."""
    uses = source.values.flow.uses(name)
    return bool(uses) and all(_shown(source, use, depth) for use in uses)


def _shown(source: Source, node: ast.AST, depth: int = 2) -> bool:
    """Whether a value goes nowhere but into a picture or a file, detached or not.

    A name that holds a picture made of it is followed `depth` times.
    """
    for above in source.tree.above(node):
        if isinstance(above, ast.Call):
            if _SHOWS.search(source.names.of(above.func) or method(above) or text(above.func)):
                return True
            if _chosen(source, above):
                return True
            if method(above) not in _KEEPS and source.names.of(above.func) not in _STACKS:
                return False
        elif isinstance(above, ast.stmt):
            target = above.targets[0] if isinstance(above, ast.Assign) else None
            return bool(depth) and isinstance(target, ast.Name) and _only_shown(
                source, target, depth - 1)  # fmt: skip
    return False


def _read_out(source: Source, node: ast.AST, depth: int = 3) -> bool:
    """Whether all that becomes of a value is a number or a choice: nothing can go backward.

    A loss of it, and a name that holds what is computed from it, are followed `depth` times.
    """
    for above in source.tree.above(node):
        match above:
            case ast.Compare():
                return True
            case ast.Call():
                name = method(above) or text(above.func)
                if name in _NUMBERS or source.names.of(above.func) in _CHOOSES:
                    return True
                if not (name in _KEEPS | _REDUCES or _is_loss(source, above)):
                    return False
            case ast.Assign(targets=[target]):
                names = list(names_of(target))
                return bool(depth) and all(_all_read_out(source, one, depth - 1) for one in names)
            case ast.stmt():
                return False
    return False


def _all_read_out(source: Source, name: ast.expr, depth: int) -> bool:
    """Whether every use of a name reads a number out of it; one that is never used is fine."""
    return isinstance(name, ast.Name) and all(
        _read_out(source, use, depth) for use in source.values.flow.uses(name)
    )


def _is_loss(source: Source, call: ast.Call) -> bool:
    dotted = source.names.of(call.func)
    functional = dotted.startswith("torch.nn.functional.")
    return source.values.are(call.func, CRITERION) or (
        functional and dotted.rpartition(".")[2] in LOSSES | _SQUASHES
    )


def _chosen(source: Source, call: ast.Call) -> bool:
    """`q.argmax(1).cpu().numpy()`: an index is taken, and read on the host."""
    if source.names.of(call.func) not in _CHOOSES and method(call) not in {"argmax", "argmin"}:
        return False
    asked = [above.attr for above in source.tree.above(call) if isinstance(above, ast.Attribute)]
    return bool(set(asked) & {"numpy", "item", "tolist", "cpu"})


def _by_flag(source: Source) -> Iterator[ast.Call]:
    """The forward of a routine that trains or evaluates by a flag, and is called for both."""
    for function in source.tree.functions:
        flags = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        if not flags or function.name in _NEVER:
            continue
        backward = methods_within(source, function, "backward")
        guards = [_guard(source, call, flags) for call in backward]
        if not guards or not all(guards):
            continue
        for call in calls_within(source, function):
            plain = source.values.are(call.func, MODEL) and method(call) not in _MODES
            if plain and not _guard(source, call, flags):
                yield call


def _guard(source: Source, node: ast.AST, flags: set[str]) -> bool:
    """Whether a node runs only `if training:`, a parameter that is a flag."""
    below = node
    for above in source.tree.above(node):
        if isinstance(above, ast.If) and below is not above.test:
            words = {
                text(n) for n in ast.walk(above.test) if isinstance(n, ast.Name | ast.Attribute)
            }
            if words & flags and any(_TRAINING.search(word) for word in words):
                return True
        if isinstance(above, FunctionNode):
            return False
        below = above
    return False


def evaluations(source: Source) -> Iterator[ast.Call]:
    """Calls of a model in code that never goes backward.

    For each batch of something, or once behind `eval()`; also by way of a function of the file
    that calls the model and serves training as well.
    """
    for call in source.tree.calls:
        if method(call) in _MODES or in_test(source, call):
            continue
        if source.values.are(call.func, MODEL):
            function = source.tree.function(call)
            if function is not None and function.name in _NEVER:
                continue
        elif not _calls_model(source, call):
            continue
        loop = _data_loop(source, call)
        if loop is None and _last_mode(source, call) != "eval":
            continue
        if not _wants_gradients(source, call, loop):
            yield call


def _calls_model(source: Source, call: ast.Call) -> bool:
    """Whether a call behind `eval()` runs a function of the file that itself calls a model."""
    function = source.values.local(call)
    if not isinstance(function, ast.FunctionDef) or function.name in _NEVER:
        return False
    if _last_mode(source, call) != "eval" or goes_backward(source, function):
        return False
    named = bool(_EVALUATES.search(function.name)) and not _serves_training(source, function)
    if methods_within(source, function, "eval") or named:
        return False
    return any(
        isinstance(node, ast.Call)
        and method(node) not in _MODES
        and source.values.are(node.func, MODEL)
        and not any(True for _ in source.tree.loops(node))
        and not _maybe_off(source, node)
        for node in within(source, function)
    )


def _wants_gradients(source: Source, call: ast.Call, loop: ast.AST | None) -> bool:
    """Whether the loop goes backward, or its function does outside of loops of its own."""
    if loop is not None and goes_backward(source, loop):
        return not only_read(source, call)
    if loop is None and _after_the_step(source, call):
        return False
    if loop is None and source.loops.in_step(call):
        return True
    function, around = source.tree.function(call), set(source.tree.loops(call))
    for node in within(source, function) if function is not None else []:
        local = source.values.local(node) if isinstance(node, ast.Call) else None
        takes = takes_gradients(source, node) or (
            local is not None and goes_backward(source, local)
        )
        if takes and not set(source.tree.loops(node)) - around:
            return True
    return False


def only_read(source: Source, call: ast.Call) -> bool:
    """Whether a call in the loop that trains, behind `net.eval()`, gives numbers alone.

    As `val = criterion(net(x), y).item()` at the end of an epoch.
    """
    return _after_the_step(source, call) and _read_out(source, call)


def _after_the_step(source: Source, call: ast.Call) -> bool:
    """Whether `eval()` was called, and the last backward of its function lies before that.

    Of a call outside of functions, the last backward of the file's own statements.
    """
    function = source.tree.function(call) or source.tree.module
    if _last_mode(source, call) != "eval":
        return False
    backward = [place(node) for node in within(source, function) if takes_gradients(source, node)]
    modes = [place(node) for node in methods_within(source, function, "eval")
             if place(node) < place(call)]  # fmt: skip
    return bool(backward and modes) and max(backward) < max(modes)


def _data_loop(source: Source, call: ast.Call) -> ast.AST | None:
    """The loop or comprehension over data around a call, or around the call of its function."""
    comprehension = in_comprehension(source, call)
    if comprehension is not None:
        return comprehension
    loop = next(source.tree.loops(call), None)
    if loop is not None:
        return loop
    function = source.tree.function(call)
    if function is None or _serves_training(source, function):
        return None
    for caller in callers(source, function):
        outer = next(source.tree.loops(caller), None)
        if outer is not None and not goes_backward(source, outer):
            return outer
    return None


def _serves_training(source: Source, function: ast.AST) -> bool:
    """Whether a loop that goes backward calls a function."""
    loops = (next(source.tree.loops(call), None) for call in callers(source, function))
    return any(loop is not None and goes_backward(source, loop) for loop in loops)


def _judged(source: Source, call: ast.Call) -> bool:
    """Whether an evaluation is meant: after `eval()`, or by the name of its function."""
    last = _last_mode(source, call)
    if last:
        return last == "eval"
    function = source.tree.function(call)
    return (
        function is not None
        and bool(_EVALUATES.search(function.name))
        and (function.name not in STEPS and over_loader(source, call))
    )


def over_loader(source: Source, call: ast.Call) -> bool:
    """Whether the loop around a call goes over a DataLoader."""
    loop = _data_loop(source, call)
    heads = (
        [loop.iter]
        if isinstance(loop, ast.For | ast.AsyncFor)
        else [part.iter for part in getattr(loop, "generators", [])]
    )
    inner = [node for head in heads for node in ast.walk(head)]
    return any(source.values.are(node, LOADER) for node in inner)


def _last_mode(source: Source, call: ast.Call) -> str:
    """The mode that was last set on the called model, above the call in its function."""

    def same(owner: ast.expr) -> bool:
        name = text(owner)
        return name == text(call.func) or (bool(name) and _runs(source, call, name))

    return source.script.mode_before(call, same)


def _runs(source: Source, call: ast.Call, model: str) -> bool:
    """Whether a call is passed a model, or runs a method of the object that holds it."""
    if source.values.are(call.func, MODEL):
        return False
    given = {text(node) for node in (*call.args, *(word.value for word in call.keywords))}
    method_of_self = text(call.func).startswith("self.") and model.startswith("self.")
    return model in given or method_of_self or isinstance(call.func, ast.Name)


def _maybe_off(source: Source, call: ast.Call) -> bool:
    """Gradients are off around a call, or something around it may switch them off."""
    function = source.tree.function(call)
    if source.loops.without_grad(call):
        return True
    if function is not None and source.project.guarded(function.name):
        return True
    return any(_NO_GRAD.search(_spelled(source, one)) for one in source.tree.contexts(call))


def _spelled(source: Source, node: ast.expr) -> str:
    """A context manager as written, with the definitions of its name."""
    inner = node.func if isinstance(node, ast.Call) else node
    found = [ast.unparse(node)]
    if isinstance(inner, ast.Name):
        values = (d.value for d in source.values.flow.reaching(inner))
        found += [ast.unparse(value) for value in values if value is not None]
    return " ".join(found)
