"""`CachedDataset` around the dataset of each loader without workers."""

import ast

from hotlap.source.patch.calls import replace_argument
from hotlap.source.patch.draft import Draft
from hotlap.source.patch.imports import spelt
from hotlap.source.patch.predicates import ITERABLE, map_style
from hotlap.source.script_model import DATA_LOADER
from hotlap.source.tree import method, receiver

CACHE = "hotlap.data.CachedDataset"
_WISH = "wrap the dataset: DataLoader(CachedDataset(dataset), ...), from hotlap.data"


def cached_dataset(draft: Draft) -> None:
    """Wrap the dataset where the loader is made."""
    for call in draft.source.calls(DATA_LOADER):
        arguments = draft.source.arguments(call)
        if arguments is None:
            draft.by_hand(call, f"its arguments are not spelt out in this file: {_WISH}")
            continue
        dataset = arguments.get("dataset")
        workers = arguments.get("num_workers")
        if dataset is None or (workers is not None and draft.literal(workers) != (0,)):
            if workers is not None and draft.literal(workers) is None:
                shown = ast.unparse(workers)
                draft.by_hand(call, f"where num_workers={shown} is 0, {_WISH}")
        elif _is_cached(draft, dataset):
            draft.already = True
        else:
            _wrap(draft, call, dataset, arguments)
    draft.nothing_here(f"no DataLoader without workers was found: {_WISH}")


def _wrap(draft: Draft, call: ast.Call, dataset: ast.expr, arguments: dict[str, ast.expr]) -> None:
    style = map_style(draft, dataset, arguments)
    if style is False:
        return
    if style is None:
        draft.by_hand(call, f"unless {ITERABLE.partition(':')[0]}, {_WISH}")
    elif _made_again(draft, call):
        draft.by_hand(
            call, f"this loader is made again and again: make the cache once, and {_WISH}"
        )
    elif changed := _changed(draft, dataset):
        draft.by_hand(changed, f"the dataset is changed here: if only before training, {_WISH}")
    else:
        inner = ast.get_source_segment(draft.text, dataset) or ast.unparse(dataset)
        replace_argument(draft, call, dataset, f"{spelt(draft, CACHE)}({inner})")


def _made_again(draft: Draft, call: ast.Call) -> bool:
    """Whether a loader is made in a loop, or in a function that is called in one."""
    if next(draft.source.tree.loops(call), None) is not None:
        return True
    function = draft.source.tree.function(call)
    calls = draft.script.origins.callers(function) if function is not None else None
    return any(next(draft.source.tree.loops(c), None) is not None for c in calls or ())


def _is_cached(draft: Draft, dataset: ast.expr) -> bool:
    """Whether a dataset is a cache: made here, or where its name was assigned."""
    names = draft.source.names
    if isinstance(dataset, ast.Call):
        return names.of(dataset.func) == CACHE
    made = [n.value for n in draft.source.tree.nodes if isinstance(n, ast.Assign)
            and ast.unparse(n.targets[0]) == ast.unparse(dataset)]  # fmt: skip
    return any(isinstance(m, ast.Call) and names.of(m.func) == CACHE for m in made)


def _changed(draft: Draft, dataset: ast.expr) -> ast.AST | None:
    """Where a setting of the dataset is assigned, or a method like `set_epoch` called on it."""
    name = ast.unparse(dataset)
    for node in draft.source.tree.nodes:
        match node:
            case ast.Attribute(value=owner, ctx=ast.Store()) if ast.unparse(owner) == name:
                return node
        changed = receiver(node) if method(node).startswith("set_") else None
        if changed is not None and ast.unparse(changed) == name:
            return node
    return None
