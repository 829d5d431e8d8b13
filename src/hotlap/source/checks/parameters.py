"""Loops over parameters, written by hand, that the library has as one call."""

import ast
import re
from collections.abc import Callable, Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import branches, is_constant, reached
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import keyword, method, names_in, receiver, text

_OF_MODEL = frozenset({"parameters", "named_parameters", "buffers", "state_dict", "named_buffers"})
_CLIPS = frozenset({"clamp_", "clip_", "norm", "clamp", "clip"})
_SCALES = frozenset({"mul_", "div_"})
_AVERAGE = re.compile(r"ema|average|avg|lerp|blend|interpolate")
_LIMIT = re.compile(r"clip|norm|coef|max|limit|scale_factor")
_MIXES = frozenset({"mul_", "lerp_", "mul", "lerp"})
_FILLS = frozenset({"zero_", "fill_"})
_STEPS = frozenset({"sub_", "add_"})
_LIGHTNING = ("lightning.pytorch.", "pytorch_lightning.")
_TRANSFORMS = ("torch.func.", "functorch.")
_GRADIENT = re.compile(r"(?:^|_)(?:grad|grads|gradient|gradients)(?:$|_)")
Loop = ast.For
Comprehension = ast.DictComp | ast.ListComp | ast.GeneratorExp


def ema_loop(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`for e, p in zip(ema.parameters(), model.parameters()): e.mul_(d).add_(p, alpha=1 - d)`."""
    yield from _loops(source, _averages)


def clipping_loop(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A loop that scales, clamps or measures `p.grad`, or Lightning's `grad_norm(model, 2)`."""
    yield from _loops(source, _clips)
    for one in _comprehensions(source):
        over = any(_over_parameters(source, part.iter) for part in one.generators)
        if over and any(map(_measures, ast.walk(one))):
            yield one
    for call in source.tree.calls:
        name = source.names.of(call.func)
        if name.startswith(_LIGHTNING) and name.endswith("utilities.grad_norm"):
            yield from () if any(branches(source, call)) else (call,)


def penalty_loop(source: Source, _: Technique) -> Iterator[Spread]:
    """A loop, or a sum, that adds up the squares or absolute values of parameters at each step."""
    for loop in (*source.tree.every(ast.For), *_comprehensions(source)):
        parts = loop.generators if isinstance(loop, Comprehension) else [loop]
        names = {name for part in parts for name in names_in(part.target)}
        over = any(_over_parameters(source, part.iter) for part in parts)
        measured = (one for one in _inside(loop) if _is_norm(one, names))
        if over and any(measured) and source.loops.in_step(loop):
            yield Spread(loop, loop)


def _inside(loop: Loop | Comprehension) -> Iterator[ast.AST]:
    if not isinstance(loop, ast.For):
        yield from ast.walk(loop)
        return
    for statement in loop.body:
        if isinstance(statement, ast.AugAssign | ast.Assign | ast.If):
            yield from ast.walk(statement)


def _is_norm(node: ast.AST, names: set[str]) -> bool:
    """`p.pow(2).sum()`, `(p ** 2).sum()`, `p.norm(2)`, `torch.norm(p)`, `p.abs().sum()`."""
    if not isinstance(node, ast.Call) or _grads(node):
        return False
    of = receiver(node)
    if isinstance(of, ast.Name) and of.id == "torch":
        of = node.args[0] if node.args else None
    called = method(node)
    return of is not None and called in {"sum", "norm"} and _is_size(of, names, called)


def _is_size(node: ast.expr, names: set[str], called: str) -> bool:
    """Whether something is a parameter by whose sum, or norm, it is penalised."""
    match node:
        case ast.Name(id=name):
            return name in names and called == "norm"
        case ast.BinOp(left=left, op=ast.Pow() | ast.Mult()):
            return _root(left) in names
    return method(node) in {"pow", "square", "abs"} and bool(names & names_in(node))


def zeroing_loop(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`for p in parameters: p.grad.zero_()`."""
    yield from _loops(source, _zeroes)


def update_loop(source: Source, _: Technique) -> Iterator[ast.AST]:
    """`for p in parameters: p -= lr * p.grad`, or `{k: p[k] - lr * grads[k] for k in p}`.

    Not where the update is differentiated itself, as in meta-learning: no call of all does that.
    """
    found = list(_update_loops(source))
    inner = _differentiated(source) if found else set()
    yield from (loop for loop in found if loop not in inner)


def _update_loops(source: Source) -> Iterator[ast.AST]:
    yield from _loops(source, _updates)
    for loop in source.tree.every(ast.For):
        mine = (node for node in _body(loop) if next(source.tree.loops(node), None) is loop)
        if any(map(_descends, mine)) and not _in_optimizer(source, loop):
            yield loop
    yield from filter(_descends_in, _comprehensions(source))


def _comprehensions(source: Source) -> Iterator[Comprehension]:
    kinds: tuple[type[Comprehension], ...] = (ast.DictComp, ast.ListComp, ast.GeneratorExp)
    for kind in kinds:
        yield from source.tree.every(kind)


def _differentiated(source: Source) -> set[ast.AST]:
    """The nodes of functions that torch.func transforms, or that keep the graph of gradients."""
    found: set[ast.AST] = set()
    for call in source.tree.calls:
        if source.names.of(call.func).startswith(_TRANSFORMS) and call.args:
            function = source.values.named(call.args[0])
            found.update(reached(source, function) if function is not None else ())
        if is_constant(keyword(call, "create_graph"), True):
            around = source.tree.function(call) or next(source.tree.loops(call), None)
            found.update(ast.walk(around) if around is not None else ())
    return found


def _loops(source: Source, does: Callable[[Loop], bool]) -> Iterator[ast.AST]:
    for loop in source.tree.every(ast.For):
        if _over_parameters(source, loop.iter) and not _in_optimizer(source, loop) and does(loop):
            yield loop


def _over_parameters(source: Source, node: ast.expr | None, depth: int = 3) -> bool:
    """Over `model.parameters()`, a name for them, or a `zip` or `state_dict()` of them."""
    match node:
        case ast.Call():
            return _calls_parameters(source, node, depth)
        case ast.ListComp(generators=parts) | ast.GeneratorExp(generators=parts):
            return any(_over_parameters(source, part.iter, depth) for part in parts)
        case ast.List(elts=[_, _, *_] as elements):
            return all(isinstance(one, ast.Name) for one in elements)
        case ast.Name() | ast.Attribute() if depth:
            if text(node).rpartition(".")[2] in {"params", "parameters", "shadow_params"}:
                return True
            reaching = source.values.flow.reaching(node)
            return any(_over_parameters(source, d.value, depth - 1) for d in reaching)
    return isinstance(node, ast.Subscript) and is_constant(node.slice, "params")


def _calls_parameters(source: Source, call: ast.Call, depth: int) -> bool:
    name = method(call)
    if name in _OF_MODEL:
        return True
    inner: list[ast.expr | None] = []
    if name in {"items", "values"}:
        inner = [receiver(call)]
    elif source.names.of(call.func) in {"zip", "enumerate", "list", "filter", "tuple"}:
        inner = [*call.args]
    return any(_over_parameters(source, part, depth) for part in inner)


def _in_optimizer(source: Source, loop: Loop) -> bool:
    """In an optimizer of the file's own: there the loop is the algorithm."""
    owner = source.tree.class_of(loop)
    bases = [source.names.of(base) for base in owner.bases] if owner is not None else []
    return any("optim" in base.lower() for base in bases)


def _averages(loop: Loop) -> bool:
    """Two sets of parameters, and one is moved towards the other."""
    targets = names_in(loop.target)
    paired = isinstance(loop.iter, ast.Call) and text(loop.iter.func) == "zip"
    by_name = method(loop.iter) in {"items", *_OF_MODEL}
    pairs = (paired or by_name) and len(targets) > 1
    if not pairs or any(_grads(node) or _called_gradient(node) for node in _body(loop)):
        return False
    return any(_mixes(node, targets) for node in _body(loop))


def _called_gradient(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and _GRADIENT.search(node.id) is not None


def _mixes(node: ast.AST, targets: set[str]) -> bool:
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Mult) and _root(node.target) in targets
    if isinstance(node, ast.Call) and method(node) in _MIXES:
        return _root(receiver(node)) in targets
    if isinstance(node, ast.Assign) and _sets_data(node, targets):
        return True
    blends = isinstance(node, ast.Call) and method(node) == "copy_" and node.args
    value = node.args[0] if blends and isinstance(node, ast.Call) else getattr(node, "value", None)
    if not blends and not isinstance(node, ast.Assign):
        return False
    return isinstance(value, ast.BinOp) and any(
        isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) for n in ast.walk(value)
    )


def _sets_data(node: ast.Assign, targets: set[str]) -> bool:
    """`average.data = self.update_average(average.data, p.data)`."""
    into = any(
        isinstance(one, ast.Attribute) and one.attr == "data" and _root(one) in targets
        for one in node.targets
    )
    called = text(node.value.func).lower() if isinstance(node.value, ast.Call) else ""
    return into and _AVERAGE.search(called.rpartition(".")[2]) is not None


def _clips(loop: Loop) -> bool:
    return any(_measures(node) or _limits(node) for node in _body(loop))


def _measures(node: ast.AST) -> bool:
    """`p.grad.norm()`, `p.grad.clamp_(-1, 1)`, `torch.clamp(p.grad, ...)`."""
    return method(node) in _CLIPS and _of_grad(receiver(node), node)


def _limits(node: ast.AST) -> bool:
    """`p.grad.mul_(clip_coef)`: scaled by what is called a norm, a clip or a limit."""
    if isinstance(node, ast.AugAssign):
        scales = isinstance(node.op, ast.Mult | ast.Div) and _grads(node.target)
        return scales and _named_limit(node.value)
    scales = method(node) in _SCALES and _of_grad(receiver(node), node)
    return scales and isinstance(node, ast.Call) and any(map(_named_limit, node.args))


def _named_limit(node: ast.expr) -> bool:
    return any(_LIMIT.search(text(part).lower()) for part in ast.walk(node))


def _of_grad(owner: ast.expr | None, call: ast.AST) -> bool:
    """`p.grad.norm()` and `torch.clamp(p.grad, ...)` alike."""
    first = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if isinstance(owner, ast.Name) and owner.id == "torch":
        return first is not None and _grads(first)
    return owner is not None and _grads(owner)


def _zeroes(loop: Loop) -> bool:
    return any(
        method(node) in _FILLS and (owner := receiver(node)) is not None and _grads(owner)
        for node in _body(loop)
    )


def _updates(loop: Loop) -> bool:
    targets = names_in(loop.target)
    return any(_moves(node, targets) for node in _body(loop))


def _moves(node: ast.AST, targets: set[str]) -> bool:
    if isinstance(node, ast.AugAssign):
        down = isinstance(node.op, ast.Sub | ast.Add) and not _grads(node.target)
        return down and _root(node.target) in targets and _grads(node.value)
    if isinstance(node, ast.Call) and method(node) in _STEPS:
        owner = receiver(node)
        mine = owner is not None and _root(owner) in targets and not _grads(owner)
        return mine and any(_grads(argument) for argument in node.args)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        target = node.targets[0]
        mine = _root(target) in targets and not _grads(target)
        return mine and isinstance(node.value.op, ast.Sub | ast.Add) and _grads(node.value)
    return False


def _descends(node: ast.AST) -> bool:
    """`params[name] = params[name] - lr * grad`, or `-=`, on what is kept by name or number."""
    match node:
        case ast.AugAssign(target=ast.Subscript(), op=ast.Sub(), value=step):
            return _is_gradient_step(step)
        case ast.Assign(
            targets=[ast.Subscript() as kept],
            value=ast.BinOp(left=ast.Subscript() as before, op=ast.Sub(), right=step),
        ):
            return text(kept) == text(before) and _is_gradient_step(step)
    return False


def _descends_in(node: Comprehension) -> bool:
    """`{name: p - lr * grads[name] for name, p in params.items()}`."""
    one = node.value if isinstance(node, ast.DictComp) else node.elt
    named = any(_GRADIENT.search(name) for part in node.generators for name in names_in(part.iter))
    match one:
        case ast.BinOp(left=ast.Name() | ast.Subscript(), op=ast.Sub(), right=step):
            return _is_gradient_step(step) or (named and _is_product(step))
    return False


def _is_gradient_step(node: ast.expr) -> bool:
    """A product of something that is called a gradient."""
    return _is_product(node) and any(
        _GRADIENT.search(name) or name == "g" for name in names_in(node)
    )


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _body(loop: Loop) -> Iterator[ast.AST]:
    for statement in loop.body:
        yield from ast.walk(statement)


def _grads(node: ast.AST) -> bool:
    """Whether `.grad` is read in an expression."""
    return any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in ast.walk(node))


def _root(node: ast.AST | None) -> str:
    """The name below `p.data[0].mul_(...)`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
