"""A notebook's code cell as plain Python, line for line.

Not IPython's transformer: hotlap's Python need not have IPython, and that one does not keep the
number of lines, on which the way back to the cell rests.
"""

import ast
import re
from collections.abc import Iterator
from enum import Enum, auto

TIMED = frozenset({"time", "timeit", "prun", "memit", "mprun", "lprun"})
"""Magics that run what follows them as Python, and report on it."""
PYTHON_CELLS = TIMED | {"capture", "python", "python3", "hotlap", "px", "debug"}
"""Cell magics whose body is Python of the notebook."""
_ASSIGNED = re.compile(r"(\s*[\w.\[\]\"', ]+?\s*=\s*)([!%])(.+)")
_OPENING, _CLOSING = "([{", ")]}"


def as_python(source: str) -> list[str]:
    """The cell's lines as Python: magics, shell lines and help become calls of `get_ipython()`."""
    lines = source.split("\n")
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if not lines[first].startswith("%%"):
        return list(_translated(lines))
    name, _, rest = lines[first][2:].partition(" ")
    if name not in PYTHON_CELLS:
        return [*lines[:first], *_body_as_text(name, rest.strip(), lines[first + 1 :])]
    statement = _code_of(rest) if name in TIMED - {"timeit"} else ""
    return [*lines[:first], statement, *_translated(lines[first + 1 :])]


def _body_as_text(name: str, line: str, body: list[str]) -> list[str]:
    """A cell magic with a body that is not Python: the body as strings, a line for a line."""
    call = f"get_ipython().run_cell_magic({name!r}, {line!r}, ''"
    texts = [repr(f"{text}\n") for text in body]
    if not texts:
        return [f"{call})"]
    return [call, *texts[:-1], f"{texts[-1]})"]


def _translated(lines: list[str]) -> Iterator[str]:
    """Each line, translated where a statement begins at it."""
    state = _Position()
    for line in lines:
        yield _statement(line) if state.begins_statement else line
        state.read(line)


def _statement(line: str) -> str:
    body = line.lstrip()
    indent = line[: len(line) - len(body)]
    if body.startswith("!"):
        return f"{indent}get_ipython().system({body[1:].lstrip('!').strip()!r})"
    if body.startswith("%"):
        return indent + _magic(body[1:])
    if body.startswith("?") or re.fullmatch(r"[\w.*]+\?{1,2}\s*", body):
        return f"{indent}pass"
    found = _ASSIGNED.fullmatch(line)
    if found is None or _is_python(body):
        return line
    target, mark, rest = found.groups()
    if mark == "!":
        return f"{target}get_ipython().getoutput({rest.strip()!r})"
    return target + _magic(rest)


def _magic(text: str) -> str:
    """One line magic, without its `%`."""
    name, _, rest = text.strip().partition(" ")
    if name in TIMED:
        return _code_of(rest) or "pass"
    return f"get_ipython().run_line_magic({name!r}, {rest.strip()!r})"


def _code_of(rest: str) -> str:
    """What a timing magic runs, without its options (`-n 10`, `-f train`)."""
    return re.sub(r"^(?:-\w+(?:[ ]?\d+|\s+\w+(?=\s))?\s+)*", "", rest.strip())


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def awaited(code: str) -> str:
    """A program whose `await`, `async for` and `async with` outside of functions wait in place.

    Python allows them in functions alone, IPython in cells too. Lines stay where they are.
    """
    if not re.search(r"\b(?:await|async)\b", code):
        return code
    lines = [line.encode() for line in code.split("\n")]
    nodes = _outside_functions(ast.parse(code))
    changes = [change for node in nodes for change in _waits(node, lines)]
    changes.sort(key=lambda change: change[0])
    for (line, column), old, new in changes[::-1]:  # at one place the inner node's change first
        text = lines[line - 1]
        end = column + len(match[0]) if (match := re.match(old, text[column:])) else column
        lines[line - 1] = text[:column] + new + text[end:]
    return b"\n".join(lines).decode()


_Change = tuple[tuple[int, int], bytes, bytes]
"""A place (line from 1, column from 0 in bytes), the pattern replaced there, and by what."""


_LAZY = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.GeneratorExp


def _outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs with the module itself, the outer before the inner."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, _LAZY):
            yield node
            yield from _outside_functions(node)


def _waits(node: ast.AST, lines: list[bytes]) -> Iterator[_Change]:
    if isinstance(node, ast.Await):
        yield (node.lineno, node.col_offset), rb"await", b"get_ipython().wait("
        yield _end(node), rb"", b")"
    elif isinstance(node, ast.AsyncFor):
        yield (node.lineno, node.col_offset), rb"async\s+", b""
        yield from _called("each", node.iter)
    elif isinstance(node, ast.AsyncWith):
        yield (node.lineno, node.col_offset), rb"async\s+", b""
        for item in node.items:
            yield from _called("entered", item.context_expr)
    elif isinstance(node, ast.comprehension) and node.is_async:
        line, column = node.target.lineno, node.target.col_offset
        yield (line, lines[line - 1].rfind(b"async", 0, column)), rb"async\s+", b""
        yield from _called("each", node.iter)


def _called(name: str, node: ast.expr) -> Iterator[_Change]:
    yield (node.lineno, node.col_offset), rb"", f"get_ipython().{name}(".encode()
    yield _end(node), rb"", b")"


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


class _Position:
    """Whether a line of source begins a statement: outside brackets, strings, continued lines."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._continued = False

    @property
    def begins_statement(self) -> bool:
        """Whether the next line does."""
        return not (self._depth or self._quote or self._continued)

    def read(self, line: str) -> None:
        """Follow brackets and strings through a line of Python."""
        if self.begins_statement and line.lstrip()[:1] in {"!", "%", "?"}:
            return
        index = 0
        while index < len(line):
            index = self._inside(line, index) if self._quote else self._outside(line, index)
        self._continued = not self._quote and line.endswith("\\")
        if len(self._quote) == 1 and not line.endswith("\\"):
            self._quote = ""  # a string that is not closed ends with its line

    def _inside(self, line: str, index: int) -> int:
        if line[index] == "\\":
            return index + 2
        if line.startswith(self._quote, index):
            index += len(self._quote)
            self._quote = ""
            return index
        return index + 1

    def _outside(self, line: str, index: int) -> int:
        character = line[index]
        if character == "#":
            return len(line)
        if character in "\"'":
            triple = character * 3
            self._quote = triple if line.startswith(triple, index) else character
            return index + len(self._quote)
        self._depth += (character in _OPENING) - (character in _CLOSING)
        self._depth = max(0, self._depth)
        return index + 1


def bound_names(source: str) -> set[str]:
    """The names that a cell gives a value to, or changes an attribute or entry of."""
    return {name for name, use in _uses(source) if use is not Use.READ}


def changed_names(source: str) -> set[str]:
    """The names of which a cell changes an attribute or entry."""
    return {name for name, use in _uses(source) if use is Use.CHANGED}


def needed_names(source: str) -> set[str]:
    """The names that a cell reads before it has bound them."""
    bound: set[str] = set()
    needed: set[str] = set()
    for name, use in _uses(source):
        if use is Use.BOUND:
            bound.add(name)
        elif name not in bound:
            needed.add(name)
    return needed


class Use(Enum):
    """What a cell does with a name."""

    READ = auto()
    BOUND = auto()
    CHANGED = auto()


def _uses(source: str) -> Iterator[tuple[str, Use]]:
    """The names that a cell uses outside of functions, in the order in which it does.

    Of a function those that it reads and does not bind. None where the cell is not Python.
    """
    try:
        yield from _of_node(ast.parse("\n".join(as_python(source))))
    except SyntaxError:
        return


def _of_node(node: ast.AST) -> Iterator[tuple[str, Use]]:
    match node:
        case ast.Name(id=name, ctx=ctx):
            yield name, Use.READ if isinstance(ctx, ast.Load) else Use.BOUND
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            yield from _changed(node)
        case ast.AugAssign(target=target, value=value):
            yield from _of_node(value)
            yield from _changed(target)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
            yield from _of_definition(node)
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0], Use.BOUND
        case _:
            for child in _as_run(node):
                yield from _of_node(child)


def _changed(target: ast.AST) -> Iterator[tuple[str, Use]]:
    for part in ast.walk(target):
        if isinstance(part, ast.Name):
            yield part.id, Use.CHANGED


def _as_run(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node as they run: what is assigned or looped over comes before its target."""
    parts = list(ast.iter_child_nodes(node))
    targets = [*getattr(node, "targets", ()), getattr(node, "target", None)]
    yield from (part for part in parts if part not in targets and part not in _bodies(node))
    yield from (part for part in parts if part in targets)
    yield from _bodies(node)


def _bodies(node: ast.AST) -> list[ast.AST]:
    return [part for name in ("body", "orelse") for part in _listed(getattr(node, name, ()))]


def _listed(value: object) -> list[ast.AST]:
    return list(value) if isinstance(value, list) else []


def _of_definition(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef,
) -> Iterator[tuple[str, Use]]:
    """What a definition reads from outside of itself; and its own name, bound."""
    inside = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
    own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    own |= {part.id for part in inside if not isinstance(part.ctx, ast.Load)}
    for child in inside:
        if child.id not in own:
            yield child.id, Use.READ
    if not isinstance(node, ast.Lambda):
        yield node.name, Use.BOUND
