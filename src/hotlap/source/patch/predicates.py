"""What a move's `when` predicate asks of the running program, asked of the source.

Each returns the reason to leave a call alone; an empty one lets it be changed.
"""

import ast
from collections.abc import Callable, Mapping

from hotlap.source.checks.stepping import sparse
from hotlap.source.module import Source
from hotlap.source.patch.draft import Draft
from hotlap.source.tree import method

Arguments = Mapping[str, ast.expr]
Predicate = Callable[[Draft, Arguments], str]

_MAP_STYLE = frozenset(
    f"torch.utils.data.{name}" for name in ("Dataset", "TensorDataset", "Subset", "ConcatDataset")
) | {"torch.utils.data.random_split", "range", "list", "zip", "hotlap.data.CachedDataset"}
ITERABLE = "its dataset is iterable: each worker would yield every sample"
UNANSWERED = "only the running program shows whether it may be"
UNSEEN = "this file does not show whether its dataset is iterable or has an index"


def may_have_workers(draft: Draft, arguments: Arguments) -> str:
    """Whether the dataset is map-style, and holds no CUDA tensors."""
    dataset = arguments.get("dataset")
    style = None if dataset is None else map_style(draft, dataset, arguments)
    if style is None:
        return UNSEEN
    if not style:
        return ITERABLE
    return "its dataset holds CUDA tensors" if dataset and _on_cuda(draft, dataset) else ""


def may_pin(_: Draft, __: Arguments) -> str:
    """A recipe with pinned memory was measured on a CUDA device."""
    return ""


def may_fuse(draft: Draft, arguments: Arguments) -> str:
    """Whether the learning rate is a number, and no embedding has sparse gradients."""
    rate = arguments.get("lr")
    for origin in (draft.script.origins.of(rate) or ()) if rate is not None else ():
        if isinstance(origin, ast.Call) and draft.source.names.of(origin.func) == "torch.tensor":
            return "its learning rate is a tensor"
    return "an embedding has sparse gradients" if sparse(draft.source) else ""


def one_cap(_: Draft, arguments: Arguments) -> str:
    """Whether no list of bucket sizes is given."""
    given = "bucket_cap_mb_list" in arguments
    return "it is given a list of bucket sizes" if given else ""


PREDICATES: dict[str, Predicate] = {
    "hotlap.seam.loader:may_have_workers": may_have_workers,
    "hotlap.seam.loader:may_pin": may_pin,
    "hotlap.seam.fused:may_fuse": may_fuse,
    "hotlap.seam.ddp:one_cap": one_cap,
}


def refusal(when: str, draft: Draft, arguments: Arguments) -> str:
    """The reason why a move's predicate keeps a call as it is; empty where it may be changed.

    A predicate that source cannot answer keeps every call as it is.
    """
    if not when:
        return ""
    return PREDICATES[when](draft, arguments) if when in PREDICATES else UNANSWERED


def map_style(draft: Draft, dataset: ast.expr, arguments: Arguments) -> bool | None:
    """Whether a loader's dataset has an index; None if the source does not tell."""
    shuffle = draft.literal(arguments.get("shuffle"))
    if shuffle == (True,) or "sampler" in arguments or "batch_sampler" in arguments:
        return True  # torch refuses these for an iterable dataset
    origins = draft.script.origins.of(dataset)
    if not origins:
        return None
    found = {_style(draft, origin) for origin in origins}
    return found.pop() if len(found) == 1 else None


def _style(draft: Draft, origin: ast.AST) -> bool | None:
    if isinstance(origin, ast.List | ast.Tuple | ast.ListComp):
        return True
    if isinstance(origin, ast.Name):  # `train, valid = random_split(...)`
        statement = draft.source.tree.statement(origin)
        made = statement.value if isinstance(statement, ast.Assign) else None
        return (isinstance(made, ast.Call) and _style(draft, made)) or None
    if not isinstance(origin, ast.Call):
        return None
    dotted = draft.source.names.of(origin.func)
    if dotted in _MAP_STYLE or dotted.startswith("torchvision.datasets."):
        return True
    return _class_style(draft, dotted or getattr(origin.func, "id", ""), 0)


def _class_style(draft: Draft, dotted: str, depth: int) -> bool | None:
    found = class_named(draft, dotted)
    if found is None or depth > 8:
        return None
    source, node = found
    for base in node.bases:
        name = source.names.of(base)
        if name == "torch.utils.data.IterableDataset":
            return False
        if name in _MAP_STYLE or name.startswith("torchvision.datasets."):
            return True
        inherited = _class_style(draft, name or getattr(base, "id", ""), depth + 1)
        if inherited is not None:
            return inherited
    methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    return True if "__getitem__" in methods else None


def class_named(draft: Draft, dotted: str) -> tuple[Source, ast.ClassDef] | None:
    """A class of the files patched together, by the last part of its name."""
    return draft.classes.get(dotted.rpartition(".")[2]) if dotted else None


def _on_cuda(draft: Draft, dataset: ast.expr) -> bool:
    """Whether tensors are moved to a device where the dataset is made."""
    for origin in draft.script.origins.of(dataset) or ():
        for node in ast.walk(origin):
            if method(node) in {"cuda", "to"}:
                return True
    return False
