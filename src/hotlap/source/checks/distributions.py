"""Random variables that are described, or drawn, with more work than they need."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, integer, made_by
from hotlap.source.checks.copies import repeated
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import FunctionNode, keyword, method

_NORMAL = "torch.distributions.MultivariateNormal"
_MATRICES = ("covariance_matrix", "precision_matrix", "scale_tril")
_DIAGONAL = frozenset({"diag_embed", "diag", "eye", "diagflat"})
_DEEPEST = 6
_SHUFFLED = ("torch.randperm", "numpy.random.permutation")
_STACKS = ("torch.stack", "torch.cat", "torch.tensor", "numpy.stack", "numpy.array")
_RANDOM = re.compile(r"(?:^|\.)(?:randint|randperm|multinomial|choices?|sample|integers)$")
_SAMPLES = re.compile(r"sample|batch|draw|^_*(?:get|next)")
_DRAWN = "numpy.random.choice"
_FEW = 10_000  # shuffled in a fraction of a millisecond
_DEQUE = "collections.deque"
_PICKS = ("random.sample", "random.choice", "random.choices", "numpy.random.choice")
_LONG = 100_000  # benchmarks.fewer_operations
_WEIGHTED = 4  # arguments by position, of which the last are probabilities


def diagonal_covariance(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`MultivariateNormal(mu, torch.diag_embed(var))`, also by way of a name or a multiple."""
    if b"MultivariateNormal" not in source.content:
        return
    for call in source.tree.every(ast.Call):
        name = source.names.of(call.func)
        if name.replace("multivariate_normal.", "") == _NORMAL:
            given = [*call.args[1:2], *(keyword(call, name) for name in _MATRICES)]
            matrices = [matrix for matrix in given if matrix is not None]
            if matrices and all(_diagonal(source, matrix) for matrix in matrices):
                yield call


def _diagonal(source: Source, node: ast.expr | None, depth: int = 0) -> bool:
    """Whether a matrix is made from its diagonal alone."""
    parts: list[ast.expr | None] = []
    enough = all
    match node:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            parts, enough = [left, right], any
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = [left, right]
        case ast.Call(func=ast.Attribute(value=made, attr="to" | "cuda" | "expand" | "repeat")):
            parts = [made]
        case ast.Call():
            package, _, name = source.names.of(node.func).rpartition(".")
            return (name or method(node)) in _DIAGONAL and package in {"torch", ""}
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            parts = [one.value for one in source.values.flow.reaching(node)]
    known = parts and depth < _DEEPEST
    return bool(known) and enough(_diagonal(source, part, depth + 1) for part in parts)


def shuffled_for_a_few(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.randperm(n)[:k]`, `numpy.random.choice(n, k, replace=False)` at each step.

    A replay buffer often lies in a file without a loop: the name of its method says what it is for.
    """
    for call in source.tree.every(ast.Call):
        name = source.names.of(call.func)
        few = name in _SHUFFLED and _beginning(source.tree.parent(call))
        replaced = keyword(call, "replace") if name == _DRAWN else None
        once = isinstance(replaced, ast.Constant) and replaced.value is False
        few |= once and keyword(call, "p") is None and len(call.args) < _WEIGHTED
        if few and not _small(source, call) and (repeated(source, call) or _draws(source, call)):
            yield call


def stacked_for_a_few(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`torch.stack(list(memory))[torch.randint(len(memory), (n,))]`, also by way of names."""
    for call in source.calls(*_STACKS):
        if not (repeated(source, call) or _draws(source, call)):
            continue
        uses = list(_uses(source, call))
        if uses and all(_is_drawn_from(source, use) for use in uses):
            yield call


def _uses(source: Source, call: ast.Call) -> Iterator[ast.expr]:
    """Where the result of a call is used; that of a comprehension that is unpacked as well."""
    made: ast.AST = call
    if isinstance(above := source.tree.parent(call), ast.GeneratorExp | ast.ListComp):
        made = above
    statement = source.tree.parent(made)
    if not isinstance(statement, ast.Assign):
        yield call
        return
    for name in (node for target in statement.targets for node in ast.walk(target)):
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
            yield from source.values.flow.uses(name)


def _is_drawn_from(source: Source, node: ast.expr) -> bool:
    """Whether rows are picked from a value by indices that were drawn."""
    parent = source.tree.parent(node)
    if not isinstance(parent, ast.Subscript) or parent.value is not node:
        return False
    return any(
        isinstance(made, ast.Call) and _RANDOM.search(source.names.of(made.func) or method(made))
        for made in made_by(source, parent.slice)
    )


def drawn_from_deque(source: Source, _: Technique) -> Iterator[Spread]:
    """`random.sample(memory, k)`, `[memory[i] for i in indices]` of a `deque`.

    Its elements lie in a chain of blocks, which is walked along from the nearer end. A hint where
    it is not known to be long.
    """
    if b"deque" not in source.content:
        return
    drawn = [(call, call.args[0]) for call in source.calls(*_PICKS) if call.args]
    picked = [(one, one.value) for one in source.tree.every(ast.Subscript) if _one_of(source, one)]
    for node, held in (*drawn, *picked):
        made = [one for one in made_by(source, held) if isinstance(one, ast.Call)]
        deques = [one for one in made if source.names.of(one.func) == _DEQUE]
        if deques and (repeated(source, node) or _draws(source, node)):
            lengths = [integer(source, argument(one, "maxlen", 1)) or 0 for one in deques]
            yield Spread(node, node, hint=max(lengths) < _LONG)


def _one_of(source: Source, node: ast.Subscript) -> bool:
    """Whether elements are picked one by one, in a loop of the expression itself."""
    if isinstance(node.slice, ast.Constant | ast.UnaryOp | ast.Slice):
        return False
    return isinstance(source.tree.parent(node), ast.ListComp | ast.GeneratorExp)


def _small(source: Source, call: ast.Call) -> bool:
    """Whether it is known that there are few to shuffle."""
    count = integer(source, call.args[0]) if call.args else None
    return count is not None and count <= _FEW


def _draws(source: Source, node: ast.AST) -> bool:
    """Whether the function that a node lies in draws samples, by its name."""
    function = source.tree.function(node)
    return isinstance(function, FunctionNode) and _SAMPLES.search(function.name) is not None


def _beginning(node: ast.AST | None) -> bool:
    """Whether it is the beginning of a sequence: `...[:k]`, but not all whole batches of it."""
    match node:
        case ast.Subscript(slice=ast.Slice(lower=None, upper=upper)):
            return upper is not None and not _whole_batches(upper)
    return False


def _whole_batches(upper: ast.expr) -> bool:
    """`n // size * size` or `n - n % size`: all but what fills no batch."""
    match upper:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(
                isinstance(one, ast.BinOp) and isinstance(one.op, ast.FloorDiv)
                for one in (left, right)
            )
        case ast.BinOp(op=ast.Sub(), right=ast.BinOp(op=ast.Mod())):
            return True
    return False
