"""Tensors from NumPy arrays: memory is shared where nobody else can see the array afterwards."""

import ast

from hotlap.source.element_types import shares
from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt
from hotlap.source.tree import method

_FRESH = frozenset(
    f"numpy.{name}"
    for name in ("stack", "concatenate", "vstack", "hstack", "column_stack", "array", "zeros",
                 "ones", "full", "arange", "linspace", "zeros_like", "ones_like", "full_like")
)  # fmt: skip


def no_copy_from_numpy(draft: Draft) -> None:
    """Write `torch.from_numpy` or `torch.as_tensor` for `torch.tensor` of an array of its own."""
    for call in draft.source.calls("torch.tensor"):
        if len(call.args) != 1 or not _keeps_to_cpu(call):
            continue
        data = call.args[0]
        if _is_list_of_arrays(draft, data):
            _stacked(draft, call, data)
        elif _is_fresh(draft, data, call) and shares(draft.source, call):
            _shared(draft, call, data)
    draft.already = bool(draft.source.calls("torch.as_tensor", "torch.from_numpy"))
    draft.nothing_here(
        "no torch.tensor of an array that nobody else sees was found: torch.from_numpy(array) "
        "shares the array's memory, where it is not written to afterwards",
        next(iter(draft.source.calls("torch.tensor")), None),
    )


def _keeps_to_cpu(call: ast.Call) -> bool:
    """Whether only a dtype is asked for: a device or requires_grad is another matter."""
    return all(entry.arg == "dtype" for entry in call.keywords)


def _shared(draft: Draft, call: ast.Call, data: ast.expr) -> None:
    """`from_numpy` where it is surely an array; `as_tensor` takes NumPy scalars and a dtype too."""
    array = not call.keywords and _dotted(draft, data) in _FRESH
    name = "torch.from_numpy" if array else "torch.as_tensor"
    draft.changes.code(call.func, spelt(draft, name))


def _stacked(draft: Draft, call: ast.Call, data: ast.expr) -> None:
    if call.keywords:
        draft.by_hand(call, "torch.from_numpy(np.stack(...)).to(dtype) copies the arrays as blocks")
        return
    numpy = spelt(draft, "numpy.stack")
    draft.changes.code(call.func, spelt(draft, "torch.from_numpy"))
    draft.changes.code(data, f"{numpy}({ast.get_source_segment(draft.text, data)})")


def _dotted(draft: Draft, node: ast.AST) -> str:
    return draft.source.names.of(node.func) if isinstance(node, ast.Call) else ""


def _is_list_of_arrays(draft: Draft, data: ast.expr) -> bool:
    """Whether it is a list of array expressions that NumPy itself just made."""
    match data:
        case ast.ListComp(elt=item):
            return _is_array(draft, item)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return bool(items) and all(_is_array(draft, item) for item in items)
    return False


def _is_array(draft: Draft, node: ast.expr) -> bool:
    """An expression that makes a new array, whatever its operands are."""
    dotted = _dotted(draft, node)
    if dotted in _FRESH:
        return True
    plain = isinstance(node, ast.Call) and not any(k.arg == "copy" for k in node.keywords)
    return method(node) == "astype" and plain


def _is_fresh(draft: Draft, data: ast.expr, call: ast.Call) -> bool:
    """Whether the array has no other user: made here, or in a variable that is not used again."""
    if _is_array(draft, data):
        return True
    if not isinstance(data, ast.Name):
        return False
    made = _assigned_before(draft, data, call)
    return made is not None and _is_array(draft, made) and not _used_otherwise(draft, data, made)


def _assigned_before(draft: Draft, name: ast.Name, call: ast.Call) -> ast.expr | None:
    """What the name was last assigned, in the statements before a call in the same block."""
    statement = draft.source.tree.statement(call)
    block = draft.source.tree.siblings(statement) or []
    if draft.source.tree.function(call) is None or statement not in block:
        return None
    for earlier in reversed(block[: block.index(statement)]):
        names = [n for n in ast.walk(earlier) if isinstance(n, ast.Name) and n.id == name.id]
        stores = [n for n in names if isinstance(n.ctx, ast.Store)]
        if stores:
            plain = isinstance(earlier, ast.Assign) and earlier.targets == stores
            return earlier.value if plain and isinstance(earlier, ast.Assign) else None
    return None


def _used_otherwise(draft: Draft, name: ast.Name, made: ast.expr) -> bool:
    """Whether the variable is read between its assignment and the end, other than here."""
    function = draft.source.tree.function(name)
    assert function is not None
    reads = [
        n for n in ast.walk(function)
        if isinstance(n, ast.Name) and n.id == name.id and n is not name
        and isinstance(n.ctx, ast.Load) and not draft.source.tree.inside(n, made)
    ]  # fmt: skip
    loop = next(draft.source.tree.loops(name), None)
    if loop is not None:  # a later turn assigns it anew before it is read
        reads = [n for n in reads if draft.source.tree.inside(n, loop)]
    after = [n for n in reads if n.lineno >= made.lineno]
    inner = [f for f in ast.walk(function) if isinstance(f, ast.Lambda) or (f in
             draft.source.tree.functions and f is not function)]  # fmt: skip
    return bool(after) or any(r for r in reads for f in inner if draft.source.tree.inside(r, f))
