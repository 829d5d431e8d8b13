"""Activations and normalisations written out, one kernel for each operation."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import made_by, meaning, place
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import method, receiver

_HALF = 0.5
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
    """What a chain of products and quotients computes; empty when it is nothing known."""
    factors, divisors = _factors(node)
    return next((name for name, rule in _RULES if rule(source, factors, divisors)), "")


def _others(factors: list[ast.expr], one: ast.expr) -> list[ast.expr]:
    return [other for other in factors if other is not one]


def _swish(source: Source, factors: list[ast.expr], divisors: list[ast.expr]) -> bool:
    return any(_is_swish(source, one, _others(factors, one)) for one in factors) or any(
        _is_sigmoid(source, part, factors) for part in divisors
    )


def _gelu(source: Source, factors: list[ast.expr], divisors: list[ast.expr]) -> bool:
    whole = len([*factors, *divisors][2:]) > 0
    return (whole and any(_is_gelu(source, one) for one in factors)) or _is_named_gelu(
        source, factors
    )


def _mish(source: Source, factors: list[ast.expr], _: list[ast.expr]) -> bool:
    return any(_is_mish(source, one, _others(factors, one)) for one in factors)


def _layer_norm(source: Source, factors: list[ast.expr], divisors: list[ast.expr]) -> bool:
    if not any(_is_centred(source, factor) for factor in factors):
        return False
    roots = any(_called(source, part) in {"sqrt", "rsqrt"} for part in [*factors, *divisors])
    return roots or any(_is_deviation(source, part) for part in divisors)


def _rms_norm(source: Source, factors: list[ast.expr], divisors: list[ast.expr]) -> bool:
    inverse = any(
        _called(source, one) == "rsqrt" and bool(_others(factors, one)) and _has_mean(source, one)
        for one in factors
    )
    return inverse or any(
        _called(source, part) == "sqrt" and _has_mean(source, part) and _has_square(part)
        for part in divisors
    )


_RULES = (
    ("swish", _swish),
    ("gelu", _gelu),
    ("mish", _mish),
    ("a layer norm", _layer_norm),
    ("an RMS norm", _rms_norm),
)


def _is_named_gelu(source: Source, factors: list[ast.expr]) -> bool:
    """`x * cdf`, where `cdf = 0.5 * (1 + torch.tanh(...))` stands above."""
    for factor in factors:
        made = meaning(source, factor)
        if made is not factor and isinstance(made, ast.BinOp):
            inner, _ = _factors(made)
            half = any(isinstance(p, ast.Constant) and p.value == 0.5 for p in inner)
            if half and any(_is_gelu(source, part) for part in inner):
                return True
    return False


def _is_sigmoid(source: Source, part: ast.expr, factors: list[ast.expr]) -> bool:
    """The `1 + exp(-x)` of `x / (1 + exp(-x))`."""
    match part:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            powers = [p for p in (left, right) if _called(source, p) == "exp"]
            if len(powers) != 1:
                return False
            inner = _operand(source, powers[0])
            negated = isinstance(inner, ast.UnaryOp) and isinstance(inner.op, ast.USub)
            return negated and any(ast.dump(inner.operand) == ast.dump(f) for f in factors)  # type: ignore[union-attr]
    return False


def _is_deviation(source: Source, part: ast.expr) -> bool:
    """`std + eps`, the deviation being one along an axis that is kept."""
    return any(
        isinstance(call, ast.Call) and method(call) == "std" and _keeps_axis(call)
        for node in ast.walk(part)
        if isinstance(node, ast.Name | ast.Call)
        for call in [meaning(source, node)]
    )


def _has_square(part: ast.expr) -> bool:
    return any(
        method(node) in {"pow", "square"} or (isinstance(node, ast.BinOp)
                                              and isinstance(node.op, ast.Pow))
        for node in ast.walk(part)
    )  # fmt: skip


def _begin(source: Source, node: ast.BinOp) -> ast.AST:
    """The first of the statistics that a formula uses by name, or the formula itself."""
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    made = [d.value for n in names for d in source.values.flow.reaching(n) if d.value is not None]
    kept = [value for value in made if any(_keeps_axis(part) for part in ast.walk(value))]
    return min((node, *kept), key=place)


def _keeps_axis(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    by_place = node.args[-1:] and isinstance(node.args[-1], ast.Constant)
    kept = bool(by_place) and node.args[-1].value is True  # type: ignore[attr-defined]
    return kept or any(word.arg in {"keepdim", "keepdims"} for word in node.keywords)


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
    return any(
        isinstance(call, ast.Call)
        and method(call) in {"mean", "var_mean", "std_mean"}
        and _keeps_axis(call)
        and not source.names.of(call.func).startswith("numpy.")
        for call in made_by(source, meaning(source, factor.right))
    )


def _compiled(source: Source, node: ast.AST) -> bool:
    """Whether a decorator compiles the formula, or it has a backward of its own."""
    for around in source.tree.above(node):
        if isinstance(around, ast.FunctionDef | ast.ClassDef):
            marks = [ast.unparse(mark).lower() for mark in around.decorator_list]
            if any(word in mark for mark in marks for word in _COMPILERS):
                return True
        if isinstance(around, ast.ClassDef):
            bases = [source.names.of(base) for base in around.bases]
            return any(base.endswith("autograd.Function") for base in bases)
    return False
