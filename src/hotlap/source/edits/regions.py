"""Forward and loss: the statements around each call of the model that belong together."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hotlap.source.patch.draft import Draft
from hotlap.source.tree import names_in, receiver

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)


@dataclass(frozen=True)
class Region:
    """From the call of the model to the loss made of it; `why_not`: it cannot be told apart."""

    call: ast.Call
    first: ast.stmt
    last: ast.stmt
    outputs: frozenset[str]
    why_not: str = ""


def regions(draft: Draft) -> Iterator[Region]:
    """The regions of all calls of the model; calls within one region belong together."""
    covered: set[ast.stmt] = set()
    for call in draft.script.model_calls:
        statement = draft.source.tree.statement(call)
        if statement in covered:
            continue
        region = _region(draft, call, statement)
        block = draft.source.tree.siblings(statement) or []
        if not region.why_not:
            run = block[block.index(region.first) : block.index(region.last) + 1]
            covered |= set(run)
        yield region


def _region(draft: Draft, call: ast.Call, statement: ast.stmt) -> Region:
    block = draft.source.tree.siblings(statement)
    alone = Region(call, statement, statement, _bound(statement))
    if not isinstance(statement, _SIMPLE) or block is None or _shares_line(draft, statement):
        return _refused(alone, "the model is called in the head of a statement")
    ends = {draft.source.tree.statement(call): call for call in draft.script.backward_calls}
    if statement in ends:
        return _refused(alone, "the forward is on the line of backward()")
    later = block[block.index(statement) + 1 :]
    end = next((one for one in ends if one in later), None)
    if end is not None:
        names = names_in(ends[end].func)
        until = later[: later.index(end)]
        made = [s for s in until if _bound(s) & names]
        last = made[-1] if made else statement
    else:
        last = _losses(draft, statement, later)
    run = block[block.index(statement) : block.index(last) + 1]
    if any(_forbidden(s) for s in run):
        return _refused(alone, "between forward and loss gradients are worked on")
    return Region(call, statement, last, frozenset().union(*map(_bound, run)))


def _refused(region: Region, why: str) -> Region:
    return Region(region.call, region.first, region.last, region.outputs, why)


def _losses(draft: Draft, statement: ast.stmt, later: list[ast.stmt]) -> ast.stmt:
    """The last of the statements right behind a forward that put its outputs into a loss."""
    outputs, last = _bound(statement), statement
    for following in later:
        if not isinstance(following, _SIMPLE):
            break
        used = any(loss_of(draft, c) and names_in(c) & outputs for c in ast.walk(following))
        if used:
            last, outputs = following, outputs | _bound(following)
    return last


def loss_of(draft: Draft, node: ast.AST) -> str:
    """Which of torch's losses or criteria a call computes; empty where it computes none."""
    if not isinstance(node, ast.Call):
        return ""
    dotted = draft.source.names.of(node.func)
    if dotted.startswith("torch.nn.functional."):
        return dotted if dotted.endswith(("_loss", "cross_entropy", "kl_div")) else ""
    origin = draft.script.origins.only(node.func)
    made = draft.source.names.of(origin.func) if isinstance(origin, ast.Call) else ""
    return made if made.startswith("torch.nn.") and made.endswith("Loss") else ""


def _forbidden(statement: ast.stmt) -> bool:
    names = {n.attr for n in ast.walk(statement) if isinstance(n, ast.Attribute)}
    return bool(names & {"backward", "step", "zero_grad", "scale"})


def _bound(statement: ast.stmt) -> frozenset[str]:
    return frozenset(names_in(statement, ast.Store))


def _shares_line(draft: Draft, statement: ast.stmt) -> bool:
    """Whether a statement stands behind `;` or on the line of its block's head."""
    before = draft.places.before(statement).strip()
    return bool(before) or draft.places.after(statement).startswith(";")


def under(draft: Draft, node: ast.AST, names: Collection[str]) -> bool:
    """Whether a node lies under one of these contexts: `with`, a decorator, or a name for them."""
    return any(_means(draft, head, names) for head in draft.source.tree.contexts(node))


def _means(draft: Draft, head: ast.expr, names: Collection[str]) -> bool:
    for node in (head, *(draft.script.origins.of(head) or ())):
        inner = node.func if isinstance(node, ast.Call) else node
        if draft.source.names.of(inner) in names:
            return True
        owner = receiver(node)
        if owner is not None and _means(draft, owner, names):
            return True
    return False
