"""What a collate function is handed: the samples of the file's own dataset."""

import ast

from hotlap.source.checks.context import meaning
from hotlap.source.checks.loading import Given, loaders
from hotlap.source.kinds import ARRAY
from hotlap.source.module import Source
from hotlap.source.tree import FunctionNode, text

_UNKNOWN = object()
"""No part of a sample; else an index, a key, or None for all of it."""


def lists_arrays(source: Source, node: ast.expr) -> bool:
    """Whether an expression of a collate function lists arrays out of each sample.

    Known where a loader of the file names both the function and a dataset of the file.
    """
    function = source.tree.function(node)
    if not isinstance(function, FunctionNode) or not function.args.args:
        return False
    part = _part(source, node, function.args.args[0].arg)
    if part is _UNKNOWN:
        return False
    found = [_taken(sample, part) for sample in _samples(source, function)]
    return bool(found) and all(
        one is not None and ARRAY in source.values.kinds(one) for one in found
    )


def _samples(source: Source, function: FunctionNode) -> list[ast.expr]:
    """What the datasets that a loader has beside this collate function return for an index."""
    found: list[ast.expr] = []
    for _, given in loaders(source):
        collate = given.get("collate_fn")
        if collate is not None and text(collate).rpartition(".")[2] == function.name:
            found += _returned(source, given)
    return found


def _returned(source: Source, given: Given) -> list[ast.expr]:
    dataset = meaning(source, given["dataset"]) if "dataset" in given else None
    owner = source.values.local_class(dataset.func) if isinstance(dataset, ast.Call) else None
    reads = source.values.functions.get((owner, "__getitem__")) if owner is not None else None
    return [
        node.value
        for node in source.tree.every(ast.Return)
        if reads is not None and node.value is not None and source.tree.function(node) is reads
    ]


def _part(source: Source, node: ast.expr, batch: str) -> object:
    """The part of each sample that an expression lists."""
    if isinstance(node, ast.Name) and (unzipped := _unzipped(source, node, batch)) is not None:
        return unzipped
    match meaning(source, node):
        case ast.ListComp(elt=elt, generators=[ast.comprehension(iter=ast.Name(id=name), ifs=[]) as
                                               each]) if name == batch:  # fmt: skip
            return _of_each(elt, each.target)
    return _UNKNOWN


def _of_each(elt: ast.expr, target: ast.expr) -> object:
    match elt, target:
        case ast.Name(id=name), ast.Tuple(elts=elements):
            names = [one.id if isinstance(one, ast.Name) else "" for one in elements]
            return names.index(name) if name in names else _UNKNOWN
        case ast.Name(id=name), ast.Name(id=each) if name == each:
            return None
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=key)), ast.Name(
            id=each
        ) if name == each:
            return key
    return _UNKNOWN


def _unzipped(source: Source, name: ast.Name, batch: str) -> int | None:
    """The index of `xs` in `xs, ys = zip(*batch)`."""
    for definition in source.values.flow.reaching(name):
        around = source.tree.parent(definition.target)
        assign = source.tree.parent(around) if isinstance(around, ast.Tuple) else None
        match assign:
            case ast.Assign(
                value=ast.Call(
                    func=ast.Name(id="zip"), args=[ast.Starred(value=ast.Name(id=zipped))]
                )
            ) if zipped == batch and isinstance(around, ast.Tuple):
                return [text(one) for one in around.elts].index(name.id)
    return None


def _taken(sample: ast.expr, part: object) -> ast.expr | None:
    match sample:
        case _ if part is None:
            return sample
        case ast.Tuple(elts=elements) if isinstance(part, int) and part < len(elements):
            return elements[part]
        case ast.Dict(keys=keys, values=values):
            named = {key.value: v for key, v in zip(keys, values, strict=True)
                     if isinstance(key, ast.Constant)}  # fmt: skip
            return named.get(part)  # type: ignore[call-overload, no-any-return]
    return None
