"""Code in a loop that runs under a condition: every n-th step, at the end, or when a run fails."""

import ast
import re

from hotlap.source.tree import Tree, method, names_in, text

_NAMES = re.compile(
    r"log_|_log$|^log$|logging|verbose|debug|print|should_|last|profil|visual|(?:^|_)vis$"
)
_METHODS = frozenset({"isnan", "isinf", "isfinite", "is_last", "time", "perf_counter", "monotonic"})
_ENDS = (ast.Break, ast.Raise)
_SKIPS = (ast.Continue, ast.Return)
Branch = ast.If | ast.IfExp


def now_and_then(tree: Tree, node: ast.AST, body: ast.AST, backward: ast.AST | None = None) -> bool:
    """Whether a node inside a loop or function runs in some of its rounds only.

    It stands under `if step % n`, behind `if step % n: continue`, in a loop's `else`, in a branch
    that leaves the loop, or where an error is handled. What decides on the loop's `backward` as
    well does not count: the step itself is made only then (`if step % train_frequency == 0`).
    """
    both = set(tree.blocks(backward)) & set(tree.blocks(node)) if backward is not None else set()
    shared = {holder for holder, _ in both}
    below = node
    for above in tree.above(node):
        if above is body:
            return _beside(tree, below, body) and not (
                backward is not None and _beside(tree, _child(tree, backward, body), body)
            )
        if isinstance(above, ast.Raise | ast.ExceptHandler):
            return True
        if above in shared:
            below = above
            continue
        if (
            isinstance(above, Branch)
            and below is not above.test
            and is_conditional(tree, above.test)
        ):
            return True
        if isinstance(above, ast.If) and below is not above.test and _leaves(above, below, body):
            return True
        below = above
    return False


def is_conditional(tree: Tree, test: ast.expr) -> bool:
    """Whether a test is true only sometimes: it counts, compares a counter, or asks for a log."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return all(is_conditional(tree, part) for part in test.values)
    return any(_rare(tree, node) for node in ast.walk(test))


def _rare(tree: Tree, node: ast.AST) -> bool:
    match node:
        case ast.BinOp(op=ast.Mod()):
            return True
        case ast.Call():
            return method(node) in _METHODS or bool(_NAMES.search(text(node.func)))
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return bool(_NAMES.search(name)) or _counts(tree, node)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.In()]):
            return _is_counter(tree, left)
    return False


def _is_counter(tree: Tree, node: ast.expr) -> bool:
    """Whether it is the variable that a loop around it counts with (`i`, `i + 1`)."""
    names = names_in(node)
    for loop in tree.loops(node):
        if isinstance(loop, ast.For) and names & _counters(loop):
            return True
        if names & {text(n.target) for n in loop.body if isinstance(n, ast.AugAssign)}:
            return True  # i += 1
    return bool(names & {"step", "iteration", "global_step", "iter_num", "batch_idx", "it"})


def _counters(loop: ast.For) -> set[str]:
    call = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    target = loop.target
    if text(call or loop) == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif not text(call or loop).endswith("range"):
        return set()
    return {target.id} if isinstance(target, ast.Name) else set()


def _counts(tree: Tree, node: ast.AST) -> bool:
    """A flag that was set from a counter: `update = step % 4 == 0`."""
    return (tree.function(node), text(node)) in tree.counted


def counts_rounds(tree: Tree, test: ast.expr) -> bool:
    """Whether a test is true at every n-th round: a remainder, or a flag that was set from one."""
    flags = (node for node in ast.walk(test) if isinstance(node, ast.Name))
    return has_modulo(test) or any(_counts(tree, flag) for flag in flags)


def has_modulo(value: ast.expr) -> bool:
    """Whether an expression counts: `step % 10 == 0`."""
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(value))


def _leaves(branch: ast.If, below: ast.AST, body: ast.AST) -> bool:
    """Whether the branch that holds a node ends the loop."""
    block = branch.body if below in branch.body else branch.orelse
    ends = (*_ENDS, ast.Return) if isinstance(body, ast.For | ast.While) else (ast.Raise,)
    return isinstance(block[-1], ends)


def _child(tree: Tree, node: ast.AST, outer: ast.AST) -> ast.AST:
    """The part of a loop or function that a node in it belongs to."""
    chain = [node, *tree.above(node)]
    return chain[chain.index(outer) - 1]


def _beside(tree: Tree, statement: ast.AST, body: ast.AST) -> bool:
    """In a loop's `else`, or behind `if step % n: continue`."""
    if isinstance(body, ast.For | ast.While) and statement in body.orelse:
        return True
    for earlier in getattr(body, "body", []):
        if earlier is statement:
            return False
        skips = isinstance(earlier, ast.If) and isinstance(earlier.body[-1], _SKIPS)
        if skips and has_modulo(earlier.test):
            return True
    return False
