"""What a dataset does in Python for each sample."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import meaning, place
from hotlap.source.kinds import DATASET
from hotlap.source.module import Source
from hotlap.source.sample_copies import SAMPLE, copies
from hotlap.source.script_model import DATA_LOADER
from hotlap.source.slow_calls import slow_work
from hotlap.source.tree import FunctionNode, keyword, method, text

SELF_AND_SAMPLE = 2
_TRANSFORMS = re.compile(r"transform|augment", re.IGNORECASE)


def heavy_getitem(source: Source, _: Technique) -> Iterator[tuple[ast.AST, str]]:
    """Decoding, parsing, tokenising and Python loops in `Dataset.__getitem__`, once a function.

    Rows of a pandas table are named where there is nothing slower.
    """
    for function in per_sample(source):
        work = [node for node in ast.walk(function) if isinstance(node, ast.expr | ast.stmt)]
        slow = {node: why for node in work if (why := _costs(source, node))} or {
            node: "indexes a pandas table" for node in work if _of_table(node)
        }
        if slow:
            nodes = sorted(slow, key=place)
            whole = _span([_with_methods(node, work) for node in nodes])
            yield whole, ", ".join(dict.fromkeys(slow[node] for node in nodes))


def _with_methods(
    node: ast.expr | ast.stmt, work: list[ast.expr | ast.stmt]
) -> ast.expr | ast.stmt:
    """The call together with those of methods on it: PIL decodes what it opened in `.convert()`."""
    on = {
        call.func.value: call
        for call in work
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    }
    while isinstance(node, ast.expr) and node in on:
        node = on[node]
    return node


def _span(nodes: list[ast.expr | ast.stmt]) -> ast.AST:
    """Everything from the first of some nodes to the last."""
    if len(nodes) == 1:
        return nodes[0]
    ends = max((n.end_lineno or n.lineno, n.end_col_offset or 0) for n in nodes)
    first = nodes[0]
    return ast.Pass(
        lineno=first.lineno, col_offset=first.col_offset, end_lineno=ends[0], end_col_offset=ends[1]
    )


def copied_in_loader(source: Source, _: Technique) -> Iterator[tuple[ast.AST, str]]:
    """`.cuda()`, `.to(device)` or `device=` in `Dataset.__getitem__` or a collate function."""
    seen: set[ast.AST] = set()
    for where, functions in (
        ("of each sample", per_sample(source)),
        ("in a collate function", _collating(source)),
    ):
        for function in functions:
            for call in copies(function, source.names):
                if call not in seen and not _to_the_cpu(source, call):
                    yield call, where
                seen.add(call)


def _collating(source: Source) -> list[ast.AST]:
    """The functions that loaders are given as `collate_fn`, and those that are called so."""
    named: set[str] = set()
    found: list[ast.AST] = []
    for call in source.calls(DATA_LOADER):
        given = (source.arguments(call) or {}).get("collate_fn")
        found += [given] if isinstance(given, ast.Lambda) else []
        named |= {text(node) for node in ast.walk(given)} if given is not None else set()
    for function in source.tree.functions:
        owner = source.tree.class_of(function)
        called = owner.name if function.name == "__call__" and owner else function.name
        if "collate" in called.lower() or named & {function.name, f"self.{function.name}", called}:
            found.append(function)
    return found


def _to_the_cpu(source: Source, call: ast.Call) -> bool:
    """Whether the device that a call names is the CPU in any case."""
    given = keyword(call, "device") or (call.args[0] if call.args else None)
    origin = source.script.origins.only(given) if given is not None else None
    if isinstance(origin, ast.Call) and source.names.of(origin.func) == "torch.device":
        origin = next(iter(origin.args), None)
    return isinstance(origin, ast.Constant) and origin.value == "cpu"


def per_sample(source: Source) -> list[FunctionNode]:
    """`__getitem__` of each dataset, and the functions of the file that it calls.

    Where it transforms, the file's own transforms are among them: objects that are called.
    """
    found = [
        function
        for function in source.tree.functions
        if function.name in SAMPLE and _is_dataset(source, source.tree.parent(function))
    ]
    for function in found:
        nodes = list(ast.walk(function))
        if any(_TRANSFORMS.search(_name(node)) for node in nodes):
            found += [one for one in _transforms(source) if one not in found]
        for node in nodes:
            called = source.values.local(node) if isinstance(node, ast.Call) else None
            if isinstance(called, FunctionNode) and called not in found:
                found.append(called)
    return found


def _name(node: ast.AST) -> str:
    """What a name or an attribute is called; empty for other nodes."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _transforms(source: Source) -> Iterator[FunctionNode]:
    """`__call__` of classes that take one thing, and are no modules."""
    for function in source.tree.functions:
        owner = source.tree.parent(function)
        if function.name == "__call__" and isinstance(owner, ast.ClassDef):
            takes = len(function.args.posonlyargs) + len(function.args.args)
            if takes == SELF_AND_SAMPLE and not source.values.class_kind(owner):
                yield function


def _is_dataset(source: Source, owner: ast.AST | None) -> bool:
    if not isinstance(owner, ast.ClassDef):
        return False
    methods = {one.name for one in owner.body if isinstance(one, FunctionNode)}
    return source.values.class_kind(owner) == DATASET or {"__getitem__", "__len__"} <= methods


def _costs(source: Source, node: ast.AST) -> str:
    """Why a node is slow for each sample; empty when it is not known to be."""
    if isinstance(node, ast.Call):
        return slow_work(source.names, node) or source.project.slow(source.names.of(node.func))
    if isinstance(node, ast.For) and _outermost(source, node):
        counted = isinstance(node.iter, ast.Call) and source.names.of(node.iter.func) == "range"
        nested = any(isinstance(inner, ast.For) for s in node.body for inner in ast.walk(s))
        return "a Python loop" if counted or nested else ""
    if isinstance(node, ast.ListComp) and _parses(source, node):
        return "parses text"
    return "a Python loop" if method(node) == "iterrows" else ""


def _of_table(node: ast.AST) -> bool:
    """Whether it is `table.iloc[...]` or the like, which makes pandas objects for each sample."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr in {"iloc", "loc", "iat"}
    )


def _parses(source: Source, node: ast.ListComp) -> bool:
    """`[float(v) for v in line.split(",")]`, `[vocabulary[w] for w in words]` of such words."""
    heads = [meaning(source, part.iter) for part in node.generators]
    return any(
        method(inner) in {"split", "splitlines", "readlines"}
        for head in heads
        for inner in ast.walk(head)
    )


def _outermost(source: Source, loop: ast.For) -> bool:
    return not any(isinstance(above, ast.For) for above in source.tree.loops(loop))
