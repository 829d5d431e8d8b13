"""Activations and normalisations written out, one kernel for each operation."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import meaning, place
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import method, receiver

_COMPILERS = ("compile", "script", "jit", "trace", "triton", "fuse")


def pointwise_by_hand(source: Source, _: Technique) -> Iterator[Spread]:
    """swish, gelu, mish, layer and RMS norms as formulas, in code that nothing compiles."""
    if source.calls("torch.compile") or source.tree.methods.get("compile"):
        return
    for node in source.tree.every(ast.BinOp):
        parent = source.tree.parent(node)
        whole = not (isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult | ast.Div))
        if isinstance(node.op, ast.Mult | ast.Div) and whole:
            name = _formula(source, node)
            if name and not _compiled(source, node):
                yield Spread(node, _begin(source, node), name)


def _formula(source: Source, node: ast.BinOp) -> str:
    factors, divisors = _factors(node)
    for factor in factors:
        others = [other for other in factors if other is not factor]
        if _is_swish(source, factor, others):
            return "swish"
        if _is_gelu(source, factor) and len(others) + len(divisors) >= 2:
            return "gelu"
        if _is_mish(source, factor, others):
            return "mish"
        if _called(source, factor) == "rsqrt" and others and _has_mean(source, factor):
            return "an RMS norm"
    centred = [factor for factor in factors if _is_centred(source, factor)]
    roots = {"sqrt", "rsqrt"}
    if centred and any(_called(source, part) in roots for part in [*factors, *divisors]):
        return "a layer norm"
    return ""


def _begin(source: Source, node: ast.BinOp) -> ast.AST:
    """The first of the statistics that a formula uses by name, or the formula itself."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    made = [d.value for n in names for d in source.values.flow.reaching(n) if d.value is not None]
    kept = [value for value in made if any(_keeps_axis(part) for part in ast.walk(value))]
    return min((node, *kept), key=place)


def _keeps_axis(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and any(word.arg == "keepdim" for word in node.keywords)


def _factors(node: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """What is multiplied and what divides in a chain of `*` and `/`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        factors, divisors = _factors(node.left)
        if isinstance(node.op, ast.Div):
            return factors, [*divisors, node.right]
        more, under = _factors(node.right)
        return [*factors, *more], [*divisors, *under]
    return [node], []


def _called(source: Source, node: ast.expr) -> str:
    """`sigmoid` for `torch.sigmoid(x)`, `F.sigmoid(x)` and `x.sigmoid()`; not for another's."""
    if not isinstance(node, ast.Call):
        return ""
    dotted = source.names.of(node.func)
    if dotted.startswith("torch."):
        return dotted.rpartition(".")[2]
    owner = receiver(node)
    plain = owner is not None and not dotted.startswith(("numpy.", "math.", "tensorflow.", "jax."))
    return method(node) if plain and not node.args else ""


def _operand(source: Source, node: ast.expr) -> ast.expr | None:
    """The `x` of `torch.sigmoid(x)` or `x.sigmoid()`."""
    if not isinstance(node, ast.Call):
        return None
    return node.args[0] if node.args else receiver(node)


def _is_swish(source: Source, factor: ast.expr, others: list[ast.expr]) -> bool:
    inner = _operand(source, factor) if _called(source, factor) == "sigmoid" else None
    if inner is None:
        return False
    parts = [part for part in _factors(inner)[0] if not isinstance(part, ast.Constant)]
    return len(parts) == 1 and any(ast.dump(parts[0]) == ast.dump(other) for other in others)


def _is_gelu(source: Source, factor: ast.expr) -> bool:
    match factor:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            ones = [p for p in (left, right) if isinstance(p, ast.Constant) and p.value == 1]
            calls = [p for p in (left, right) if _called(source, p) in {"tanh", "erf"}]
            return len(ones) == 1 and len(calls) == 1
    return False


def _is_mish(source: Source, factor: ast.expr, others: list[ast.expr]) -> bool:
    inner = _operand(source, factor) if _called(source, factor) == "tanh" else None
    if inner is None or _called(source, inner) != "softplus":
        return False
    x = _operand(source, inner)
    return x is not None and any(ast.dump(x) == ast.dump(other) for other in others)


def _has_mean(source: Source, factor: ast.expr) -> bool:
    """Whether a mean along an axis that is kept is in it, by a name too."""
    parts = [meaning(source, n) if isinstance(n, ast.Name) else n for n in ast.walk(factor)]
    return any(method(part) == "mean" and _keeps_axis(part) for part in parts)


def _is_centred(source: Source, factor: ast.expr) -> bool:
    """`x - mean`, the mean being one along an axis that is kept."""
    if not isinstance(factor, ast.BinOp) or not isinstance(factor.op, ast.Sub):
        return False
    mean = meaning(source, factor.right)
    made = [mean]
    if mean is factor.right and isinstance(mean, ast.Name):
        made = [d.value for d in source.values.flow.reaching(mean) if d.value is not None]
    return any(
        isinstance(call, ast.Call)
        and method(call) in {"mean", "var_mean", "std_mean"}
        and _keeps_axis(call)
        and not source.names.of(call.func).startswith("numpy.")
        for call in made
    )


def _compiled(source: Source, node: ast.AST) -> bool:
    """Whether a decorator compiles the formula, or autograd is told its own backward."""
    for around in source.tree.above(node):
        if isinstance(around, ast.FunctionDef | ast.ClassDef):
            marks = [ast.unparse(mark).lower() for mark in around.decorator_list]
            if any(word in mark for mark in marks for word in _COMPILERS):
                return True
        if isinstance(around, ast.ClassDef):
            bases = [source.names.of(base) for base in around.bases]
            return any(base.endswith("autograd.Function") for base in bases)
    return False
