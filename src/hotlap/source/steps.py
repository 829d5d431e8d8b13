"""Which functions a file runs at each step, by name, for the other files of its project.

Only the syntax is read: the loops around a `.backward()`, the `forward` of every class, and who
calls whom.
"""

import ast
from collections.abc import Iterator

from hotlap.source.conditional import now_and_then
from hotlap.source.names import Names
from hotlap.source.tree import FunctionNode, Tree, text

_LIBRARIES = ("torch.", "numpy.", "math.", "os.", "time.", "random.", "tqdm.", "logging.")
_STEP_METHODS = frozenset({"forward", "training_step", "compute_loss"})
# What modules, optimizers and tensors have too: a call of it tells nothing of the project's own.
_OF_TORCH = frozenset({"train", "eval", "step", "zero_grad", "backward", "to", "cuda", "cpu"})
_OF_TORCH |= {"item", "parameters", "fit", "forward", "reset", "close", "size", "get"}
IN_STEP = ""
"""The caller that stands for the step loops of a file."""


def calls(tree: Tree, names: Names) -> dict[str, tuple[str, ...]]:
    """The names that each function calls each time it runs; `IN_STEP`: that each step calls."""
    found: dict[str, set[str]] = {_key(tree, function): set() for function in tree.functions}
    bodies = set(_step_bodies(tree))
    for call in tree.calls:
        name = _called(names, call)
        if name:
            for caller in _callers(tree, call, bodies):
                found.setdefault(caller, set()).add(name)
    return {caller: tuple(sorted(called)) for caller, called in found.items()}


def closure(graphs: list[dict[str, tuple[str, ...]]]) -> frozenset[str]:
    """The functions of several files that run at each step, methods as `.name`.

    A name that two files define counts for neither, since a method is known by its name alone.
    """
    defined: dict[str, int] = {}
    for graph in graphs:
        for name in graph:
            defined[name] = defined.get(name, 0) + 1
    starts = [IN_STEP, *(key(name, in_class=True) for name in _STEP_METHODS)]
    waiting = [called for graph in graphs for start in starts for called in graph.get(start, ())]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found or defined.get(name) != 1 or name.startswith(".__"):
            continue
        found.add(name)
        waiting += [called for graph in graphs for called in graph.get(name, ())]
    return frozenset(found)


def key(name: str, in_class: bool) -> str:
    """How a function is called in the graph."""
    return f".{name}" if in_class else name


def _key(tree: Tree, function: FunctionNode) -> str:
    return key(function.name, isinstance(tree.parent(function), ast.ClassDef))


def _called(names: Names, call: ast.Call) -> str:
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
    for call in (*tree.methods.get("backward", []), *tree.methods.get("manual_backward", [])):
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
