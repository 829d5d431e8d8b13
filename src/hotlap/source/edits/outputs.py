"""What becomes of a model's outputs before the backward pass."""

import ast
import re

from hotlap.source.edits.regions import Region, loss_of
from hotlap.source.patch.draft import Draft
from hotlap.source.tree import method, names_in

_LOSS = re.compile("loss", re.IGNORECASE)
_MOVES = frozenset(
    {"view", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "permute", "contiguous",
     "float", "detach", "size"}
)  # fmt: skip
_REFUSED = frozenset({"torch.nn.functional.binary_cross_entropy", "torch.nn.BCELoss"})
"""Losses that autocast refuses on a GPU."""
_ARITHMETIC = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare)
_OF_DICTIONARIES = frozenset({"values", "items", "keys", "get"})


def rounds(draft: Draft, region: Region) -> bool:
    """Whether more is computed from outputs than one of torch's losses.

    What moves elements about is no arithmetic, nor is what is done with a loss that is there.
    """
    block = draft.source.tree.siblings(region.first)
    raw = _Raw(draft, region)
    for statement in block[block.index(region.first) : block.index(region.last) + 1]:
        if any(map(raw.computes, ast.walk(statement))):
            return True
        raw.bind(statement)
    return False


class _Raw:
    """Follows the outputs from one statement to the next."""

    def __init__(self, draft: Draft, region: Region) -> None:
        self._draft, self._call = draft, region.call
        self._names: set[str] = set()

    def bind(self, statement: ast.stmt) -> None:
        """The names of a statement hold what it computes from now on."""
        value, bound = getattr(statement, "value", None), names_in(statement, ast.Store)
        self._names -= bound
        if value is not None and self._is_made_of(value):
            self._names |= {name for name in bound if not _LOSS.search(name)}

    def computes(self, node: ast.AST) -> bool:
        """Whether it is arithmetic on outputs."""
        if not isinstance(node, _ARITHMETIC) or node is self._call:
            return False
        loss = loss_of(self._draft, node)
        if (loss and loss not in _REFUSED) or method(node) in _MOVES:
            return False
        return any(map(self._is_made_of, ast.iter_child_nodes(node)))

    def _is_made_of(self, node: ast.AST) -> bool:
        """Whether a value is made of outputs, and is no loss."""
        match node:
            case ast.Name(id=name):
                return name in self._names
            case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
                if _LOSS.search(name):
                    return False
            case ast.Call() if loss_of(self._draft, node):
                return False
        return node is self._call or any(map(self._is_made_of, ast.iter_child_nodes(node)))


def is_tensor(draft: Draft, call: ast.Call) -> bool:
    """Whether what a model returns is used as one tensor, and in no other way."""
    parent = draft.source.tree.parent(call)
    uses: list[ast.expr] = [call]
    if isinstance(parent, ast.Assign) and isinstance(target := parent.targets[0], ast.Name):
        uses = [*draft.source.values.flow.uses(target)]
    return all(_is_one(draft, use) for use in uses)


def _is_one(draft: Draft, use: ast.expr) -> bool:
    parent = draft.source.tree.parent(use)
    match parent:
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return True
        case ast.Attribute(attr=name) if name not in _OF_DICTIONARIES:
            above = draft.source.tree.parent(parent)
            return isinstance(above, ast.Call) and above.func is parent
        case ast.Call(func=function, args=given) if use in given:
            of_torch = draft.source.names.of(function).startswith("torch.")
            return of_torch or bool(loss_of(draft, parent))
    return False
