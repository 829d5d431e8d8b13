"""A bias in front of a batch normalisation, which takes it away again."""

import ast
from collections.abc import Iterator
from itertools import pairwise

from hotlap.core.technique import Technique
from hotlap.source.checks.context import meaning, name_of
from hotlap.source.found import Spread
from hotlap.source.module import Source
from hotlap.source.tree import attributes_of, method, opaque, receiver, text

# The position of `bias` among the arguments, and of the number of outputs.
_BIASED = {
    **{f"torch.nn.Conv{n}d": (7, "out_channels") for n in (1, 2, 3)},
    **{f"torch.nn.ConvTranspose{n}d": (7, "out_channels") for n in (1, 2, 3)},
    "torch.nn.Linear": (2, "out_features"),
}
_NORMS = {f"torch.nn.{lazy}BatchNorm{n}d" for lazy in ("", "Lazy") for n in (1, 2, 3)}
_NORMS |= {f"torch.nn.InstanceNorm{n}d" for n in (1, 2, 3)}
_NORMS |= {"torch.nn.SyncBatchNorm"}


def bias_before_norm(source: Source, _: Technique) -> Iterator[Spread]:
    """Layers that a batch normalisation follows in a sequence or in `forward`.

    A hint where an option decides on the normalisation.
    """
    if b"BatchNorm" not in source.content and b"InstanceNorm" not in source.content:
        return
    found: dict[ast.AST, None] = {}
    for one, two in _neighbours(source):
        layer, norm = _used_once(source, one), meaning(source, two)
        if layer is not None and _wasted(source, layer, norm):
            found[layer] = None
    for node in source.tree.classes:
        found.update(dict.fromkeys(_applied(source, node)))
    for layer in found:
        inner = isinstance(layer, ast.Call) and source.names.of(layer.func) not in _BIASED
        yield Spread(layer, layer, "of the layer inside" if inner else "", hint=inner)
    for one, two in _optional(source):
        if one not in found and _wasted(source, one, two):
            yield Spread(one, one, "bias=not ... where the normalisation is optional", hint=True)


def _optional(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """`layers = [conv]` and, right behind, `if normalize: layers.append(norm)`."""
    for branch in source.tree.every(ast.If):
        added = branch.body[0].value if isinstance(branch.body[0], ast.Expr) else None
        before = _beside(source, branch, -1)
        if not isinstance(added, ast.Call) or method(added) != "append" or not added.args:
            continue
        match before:
            case ast.Assign(targets=[target], value=ast.List(elts=[*_, last])):
                owner: ast.AST | None = target
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=owner),
                                         args=[last])):  # fmt: skip
                pass
            case _:
                continue
        if owner is not None and text(owner) == name_of(receiver(added)) != "":
            yield last, added.args[-1]


def _beside(source: Source, statement: ast.stmt, offset: int) -> ast.stmt | None:
    """The statement before another one of its block (-1), or behind it (1)."""
    block = source.tree.siblings(statement)
    at = block.index(statement) + offset
    return block[at] if 0 <= at < len(block) else None


def _wasted(source: Source, layer: ast.AST, norm: ast.AST) -> bool:
    """Whether `layer` has a bias that `norm`, right after it, removes."""
    if not isinstance(layer, ast.Call) or not isinstance(norm, ast.Call):
        return False
    if source.names.of(norm.func) not in _NORMS:
        return False
    if source.names.of(layer.func) not in _BIASED:
        return _wraps(source, layer)
    position, outputs = _BIASED[source.names.of(layer.func)]
    given = source.arguments(layer)
    if given is None or opaque(layer):
        return False
    bias = given.get("bias", layer.args[position] if len(layer.args) > position else None)
    if bias is not None and not (isinstance(bias, ast.Constant) and bias.value is True):
        return False
    return outputs != "out_features" or _same_width(layer, norm, given)


def _wraps(source: Source, layer: ast.Call) -> bool:
    """Whether a class of the project is made that ends in a layer with a bias (`ConvLayer`)."""
    if opaque(layer) or any(entry.arg == "bias" for entry in layer.keywords):
        return False
    found = source.project.class_of(source.names.of(layer.func) or text(layer.func))
    return found is not None and found[0].ends_biased


def _same_width(layer: ast.Call, norm: ast.Call, given: dict[str, ast.expr]) -> bool:
    """A linear layer's outputs are what is normalised (not another axis of a sequence)."""
    width = given.get("out_features", layer.args[1] if len(layer.args) > 1 else None)
    named = {entry.arg: entry.value for entry in norm.keywords}
    features = norm.args[0] if norm.args else named.get("num_features")
    return features is None or width is None or ast.unparse(width) == ast.unparse(features)


def _neighbours(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Modules that run one after the other: in `Sequential`, in a list, by `append`."""
    rows = [call.args for call in source.calls("torch.nn.Sequential")]
    rows += [node.elts for node in source.tree.every(ast.List) if len(node.elts) > 1]
    for row in rows:
        entries = [_entry(node) for node in row]
        yield from pairwise(entries)
    yield from _appended(source)


def _entry(node: ast.expr) -> ast.expr:
    """The module of an entry of a list; that of `("name", module)` too."""
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        return node.elts[1]
    return node


def _appended(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    calls = [*source.tree.methods.get("append", []), *source.tree.methods.get("add_module", [])]
    last: dict[ast.stmt, ast.Call] = {}
    for call in calls:
        if call.args and isinstance(source.tree.parent(call), ast.Expr):
            last[source.tree.statement(call)] = call
    for statement, call in last.items():
        behind = _beside(source, statement, 1)
        after = last.get(behind) if behind is not None else None
        if after is not None and text(call.func) == text(after.func) != "":
            yield call.args[-1], after.args[-1]


def _used_once(source: Source, node: ast.expr) -> ast.AST | None:
    """The layer behind an entry; none when it is used elsewhere without its norm."""
    layer = meaning(source, node)
    if layer is node:
        return layer
    definitions = source.values.flow.reaching(node) if isinstance(node, ast.Name) else []
    uses = [
        name
        for name in source.tree.every(ast.Name)
        if name.id == text(node)
        and isinstance(name.ctx, ast.Load)
        and set(source.values.flow.reaching(name)) & set(definitions)
    ]
    return layer if len(uses) == 1 else None


def _applied(source: Source, node: ast.ClassDef) -> Iterator[ast.AST]:
    """Layers of a class of which every call is the input of a batch normalisation."""
    made = _attributes(source, node)
    calls = [n for n in ast.walk(node) if isinstance(n, ast.Call) and text(n.func) in made]
    before = {id(_input(source, call)): call for call in calls}
    for name, values in made.items():
        uses = [call for call in calls if text(call.func) == name]
        followers = [before.get(id(call)) for call in uses]
        if len(values) == 1 and uses and all(
            follower is not None
            and all(_wasted(source, values[0], norm) for norm in made[text(follower.func)])
            for follower in followers
        ):  # fmt: skip
            yield values[0]


def _attributes(source: Source, node: ast.ClassDef) -> dict[str, list[ast.expr]]:
    mentioned = [name_of(receiver(call)) for call in source.tree.methods.get("append", [])]
    return {name: values for name, values in attributes_of(node).items() if name not in mentioned}


def _input(source: Source, call: ast.Call) -> ast.AST | None:
    """The call whose result, used for nothing else, is the only argument of this one."""
    if len(call.args) != 1 or call.keywords or method(call) == "":
        return None
    given = call.args[0]
    if isinstance(given, ast.Call):
        return given
    if not isinstance(given, ast.Name) or not isinstance(meaning(source, given), ast.Call):
        return None
    return _used_once(source, given)
