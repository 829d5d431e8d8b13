"""Which cells of a live session a cell stands on, and what of them it uses."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hotlap.notebook.cells import as_python, bound_names, changed_names, needed_names

_SHOWN = re.compile(r"_{1,3}|_i{0,3}|_i?\d+|_oh|_ih|Out|In")
"""The names under which IPython keeps what cells showed."""


def preparing(history: Iterable[tuple[int, str]], parts: Sequence[str]) -> list[tuple[int, str]]:
    """The cells of a session, with their numbers, that are run again before the parts of one.

    Not cells that were raced or tuned. A cell that was profiled, one with the text of a part, and
    one that uses what a cell showed, only if it binds a name that is needed later: the first two
    would train in front of each race, and a script shows nothing.
    """
    found: list[tuple[int, str]] = []
    needed = set().union(*map(needed_names, parts))
    for number, source in reversed(list(history)):
        if _was_raced(source):
            continue
        first, _, body = source.lstrip().partition("\n")
        profiled = first.startswith("%%hotlap")
        text = (body if profiled else source).strip()
        passing = profiled or text in {part.strip() for part in parts} or _looks_back(text)
        if passing and not bound_names(text) & needed:
            continue
        found.append((number, source))
        needed |= needed_names(text)
    return found[::-1]


def behind(history: Iterable[tuple[int, str]], cell: str) -> list[tuple[int, str]]:
    """The cells of a session, with their numbers, that made the names which a cell uses.

    Of the cells that gave a name its value the newest counts, so that what was edited and run again
    stands there once. One that changes what it bound itself is preceded by the one before it. Cells
    that import everything of a module, or set something of torch's, always count.
    """
    cells = [(number, source) for number, source in history if not _was_raced(source)]
    bound = [bound_names(source) for _, source in cells]
    kept = {
        at
        for at, (_, source) in enumerate(cells)
        if "*" in bound[at] or "torch" in changed_names(source)
    }
    wanted = [(len(cells), name) for name in needed_names(cell)]
    wanted += [(at, name) for at in kept for name in needed_names(cells[at][1])]
    while wanted:
        at, name = wanted.pop()
        end = at if at < len(cells) and name in bound[at] else len(cells)
        made = next((one for one in reversed(range(end)) if name in bound[one]), None)
        if made is not None and made not in kept:
            kept.add(made)
            wanted += [(made, other) for other in needed_names(cells[made][1])]
    return [cells[at] for at in sorted(kept)]


def _looks_back(source: str) -> bool:
    """Whether a cell uses what an earlier one showed, such as `_` or `Out[3]`."""
    return any(_SHOWN.fullmatch(name) for name in needed_names(source))


def without_unused(cells: Sequence[str]) -> list[str]:
    """The cells without functions and methods that the last one does not come to use.

    Those of a class with bases stay, as others may call them. Each line keeps its number.
    """
    trees = [_parsed(cell) for cell in cells]
    unused = {id(node): node for tree in trees[:-1] for node in _callables(tree)}
    used = {name for tree in trees for name in _names(tree, unused)}
    while reached := [node for node in unused.values() if node.name in used]:
        for node in reached:
            del unused[id(node)]
        used |= {name for node in reached for name in _names(node, unused)}
    return [
        _blanked(cell, [node for node in _callables(tree) if id(node) in unused])
        for cell, tree in zip(cells, trees, strict=True)
    ]


_Callable = ast.FunctionDef | ast.AsyncFunctionDef


def _parsed(cell: str) -> ast.Module:
    try:
        return ast.parse("\n".join(as_python(cell)))
    except SyntaxError:
        return ast.Module([], [])


def _callables(tree: ast.Module) -> Iterator[_Callable]:
    """The functions of a cell, and the methods of its classes without bases; not `__init__`."""
    for node in tree.body:
        inside = node.body if isinstance(node, ast.ClassDef) and not node.bases else [node]
        for one in inside:
            if isinstance(one, _Callable) and not one.name.startswith("__"):
                yield one


def _names(tree: ast.AST, left_out: Mapping[int, _Callable]) -> Iterator[str]:
    """The names, attributes and texts in a tree, outside of the functions that are left out."""
    waiting = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                    yield name
            if id(node) not in left_out:
                waiting.append(node)


def _blanked(cell: str, functions: Iterable[_Callable]) -> str:
    lines = cell.split("\n")
    for node in functions:
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        length = (node.end_lineno or node.lineno) - first
        lines[first - 1 : first + length] = [f"{' ' * node.col_offset}pass", *[""] * length]
    return "\n".join(lines)


def _was_raced(source: str) -> bool:
    """Whether a cell was raced or tuned: it ran in other processes."""
    return source.lstrip().startswith(("%%hotlap race", "%%hotlap tune"))
