"""Which functions a file runs at each step, by name, for the other files of its project.

Only the syntax is read: the loops around a `.backward()`, the `forward` of every class, and who
calls whom.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from hotlap.source.conditional import now_and_then
from hotlap.source.names import Names
from hotlap.source.tree import FunctionNode, Tree, method, text

_LIBRARIES = ("torch.", "numpy.", "math.", "os.", "time.", "random.", "tqdm.", "logging.")
_STEP_METHODS = frozenset({"forward", "training_step", "compute_loss"})
# What modules, optimizers, tensors and containers have too: a call of it tells nothing of the
# project's own.
_OF_TORCH = frozenset({"train", "eval", "step", "zero_grad", "backward", "to", "cuda", "cpu"})
_OF_TORCH |= {"item", "parameters", "fit", "forward", "reset", "close", "size", "get"}
_OF_TORCH |= {"append", "extend", "insert", "items", "keys", "values", "pop", "copy", "index"}
_BACKWARD = ("backward", "manual_backward")
_DEEPEST = 3
IN_STEP = ""
"""The caller that stands for the step loops of a file."""
GOES_BACKWARD = "<backward>"
"""What a function calls that goes backward once each time it runs: one step for its caller."""


def calls(tree: Tree, names: Names) -> dict[str, tuple[str, ...]]:
    """The names that each function calls each time it runs; `IN_STEP`: that each step calls."""
    found: dict[str, set[str]] = {_key(tree, function): set() for function in tree.functions}
    bodies = set(_step_bodies(tree))
    for call in tree.calls:
        name = called_by(names, call)
        if name:
            for caller in _callers(tree, call, bodies):
                found.setdefault(caller, set()).add(name)
    for name in _going_backward(tree, names):
        found.setdefault(name, set()).add(GOES_BACKWARD)
    return {caller: tuple(sorted(called)) for caller, called in found.items()}


def steppers(graphs: list[dict[str, tuple[str, ...]]]) -> frozenset[str]:
    """The functions of several files that make one step each time they run."""
    defined = Counter(name for graph in graphs for name in graph)
    found = {name for graph in graphs for name, made in graph.items() if GOES_BACKWARD in made}
    return frozenset(name for name in found if defined[name] == 1 and name != IN_STEP)


def closure(graphs: list[dict[str, tuple[str, ...]]]) -> frozenset[str]:
    """The functions of several files that run at each step, methods as `.name`.

    A name that two files define counts for neither, since a method is known by its name alone.
    """
    defined = Counter(name for graph in graphs for name in graph)
    starts = [IN_STEP, *(key(name, in_class=True) for name in _STEP_METHODS)]
    waiting = [called for graph in graphs for start in starts for called in graph.get(start, ())]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found or defined[name] != 1 or name.startswith(".__"):
            continue
        found.add(name)
        waiting += [called for graph in graphs for called in graph.get(name, ())]
    return frozenset(found)


def key(name: str, in_class: bool) -> str:
    """How a function is called in the graph."""
    return f".{name}" if in_class else name


def _key(tree: Tree, function: FunctionNode) -> str:
    return key(function.name, isinstance(tree.parent(function), ast.ClassDef))


def _going_backward(tree: Tree, names: Names) -> set[str]:
    """The functions that call `.backward()` outside of loops, by way of one another too."""
    calls = [call for call in tree.calls if next(tree.loops(call), None) is None]
    found: set[str] = set()
    for _ in range(_DEEPEST):
        for call in calls:
            function = tree.function(call)
            if function is not None and (
                method(call) in _BACKWARD or called_by(names, call) in found
            ):
                found.add(_key(tree, function))
        if not found:
            break
    return found


def called_by(names: Names, call: ast.Call) -> str:
    """The function that a call may run: that of a module, or the method of some object."""
    dotted, func = names.of(call.func), call.func
    if dotted.startswith(_LIBRARIES):
        return ""
    if not isinstance(func, ast.Attribute):
        return text(func)
    if func.attr in _OF_TORCH:
        return ""
    return key(func.attr, in_class=not dotted)


def _step_bodies(tree: Tree) -> Iterator[ast.AST]:
    """The innermost loops, or else functions, around each `.backward()`."""
    for call in (call for name in _BACKWARD for call in tree.methods.get(name, [])):
        loop = next(tree.loops(call), None)
        body = loop or tree.function(call)
        if body is not None:
            yield body


def _callers(tree: Tree, call: ast.Call, bodies: set[ast.AST]) -> Iterator[str]:
    """The function around a call, and the step loops around it, unless it runs conditionally."""
    function = tree.function(call)
    if function is not None and not now_and_then(tree, call, function):
        yield _key(tree, function)
    below: ast.AST = call
    for above in tree.above(call):
        head = isinstance(above, ast.For) and below is above.iter
        if above in bodies and not head and not now_and_then(tree, call, above):
            yield IN_STEP
            return
        below = above
