"""Which numbers a program reads from the device only to print them, by the source that reads them.

A read is a call of `.item()`, or a tensor in a field of an f-string. Its number is only printed
where it reaches nothing but arguments of `print`, of a logger's methods and of `add_scalar`: as it
is, in a field of an f-string or of `str.format`, through `+ - * /`, and through local variables of
which the same is true wherever they are read. A comparison, a return, any other call, a container,
an attribute, or a variable that a nested function sees makes it a number that the program uses.
"""

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from string import Formatter
from types import CodeType

Position = tuple[int | None, int | None, int | None, int | None]
"""First line, last line, first column, last column, as `co_positions` gives them."""
Sinks = frozenset[str]
"""What is called with the number, as dotted names: `print`, `logger.info`, `self.log.debug`."""

LOGS = {"debug": 0, "info": 0, "warning": 0, "error": 0, "critical": 0, "log": 1}
"""Methods of a logger, with the first argument that may hold a number."""
_LOOKS_AT_VARIABLES = {"locals", "globals", "vars", "eval", "exec", "dir"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp,
           ast.GeneratorExp)  # fmt: skip


@cache
def printed_only(code: CodeType) -> dict[Position, Sinks]:
    """The reads in this function whose numbers are only printed, and what prints them.

    Empty where the source is not what the function was compiled from.
    """
    source = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(source)
        whole = compile(tree, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return {}
    return _Flow(tree).reads() if code in _codes(whole) else {}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class _Flow:
    """Where the values of a file's expressions go."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._above: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
        }
        self._followed: set[tuple[ast.AST, str]] = set()

    def reads(self) -> dict[Position, Sinks]:
        """All reads that are only printed; of two at one position both must be."""
        found: dict[Position, Sinks | None] = {}
        for node in ast.walk(self._tree):
            self._followed.clear()
            if isinstance(node, ast.FormattedValue):
                sinks = self._sink_of_field(node)
            elif isinstance(node, ast.Call) and _is_item(node):
                sinks = self._reached(node)
            else:
                continue
            here = (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)
            before = found.get(here, frozenset())
            found[here] = None if sinks is None or before is None else before | sinks
        return {here: sinks for here, sinks in found.items() if sinks}

    def _reached(self, node: ast.AST) -> Sinks | None:
        """What prints this expression's value; None if it goes anywhere else."""
        above = self._above[node]
        if isinstance(above, ast.BinOp) and isinstance(above.op, _ARITHMETIC):
            return self._reached(above)
        if isinstance(above, ast.FormattedValue):
            return self._sink_of_field(above)
        if isinstance(above, ast.Call):
            return self._sink(node, above)
        targets: list[ast.expr] = []
        if isinstance(above, ast.Assign):
            targets = above.targets
        elif isinstance(above, ast.AugAssign) and isinstance(above.op, _ARITHMETIC):
            targets = [above.target]
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            return self._variable(targets[0], self._scope(above))
        return None

    def _sink_of_field(self, field: ast.FormattedValue) -> Sinks | None:
        """What prints an f-string's field, if its format is written out."""
        spec = field.format_spec
        written = spec is None or all(isinstance(n, ast.JoinedStr | ast.Constant)
                                      for n in (spec, *ast.iter_child_nodes(spec)))  # fmt: skip
        text = self._above[field]
        call = self._above[text]
        if field.conversion != -1 or not written or not isinstance(call, ast.Call):
            return None
        return self._sink(text, call)

    def _sink(self, argument: ast.AST, call: ast.Call) -> Sinks | None:
        """The function that prints this argument."""
        at = next((i for i, given in enumerate(call.args) if given is argument), None)
        name = _dotted(call.func)
        if at is None or any(isinstance(given, ast.Starred) for given in call.args):
            return None
        if _is_format(call.func):
            outer = self._above[call]
            return self._sink(call, outer) if isinstance(outer, ast.Call) else None
        owner, _, method = name.rpartition(".")
        logs = owner and at >= LOGS.get(method, len(call.args))
        scalar = owner and method == "add_scalar" and at == 1
        return frozenset({name}) if name == "print" or logs or scalar else None

    def _variable(self, target: ast.Name, scope: ast.AST) -> Sinks | None:
        """What prints a local variable, at all places that read it."""
        if not isinstance(scope, (ast.Module, *_FUNCTIONS)) or self._looked_at(scope, target):
            return None
        if (scope, target.id) in self._followed:
            return frozenset()
        self._followed.add((scope, target.id))
        found: Sinks = frozenset()
        for node in ast.walk(scope):
            if target.id in getattr(node, "names", ()):  # global and nonlocal
                return None
            if not isinstance(node, ast.Name) or node.id != target.id:
                continue
            sinks = self._reached(node) if isinstance(node.ctx, ast.Load) else frozenset()
            if sinks is None or self._scope(node) is not scope:
                return None
            found |= sinks
        return found

    def _looked_at(self, scope: ast.AST, target: ast.Name) -> bool:
        """Whether something reads the scope's variables by name, once this one has its value.

        What a script does above the statement that holds the whole training comes before it.
        """
        top = self._top(target).lineno if isinstance(scope, ast.Module) else 0
        return any(
            isinstance(node, ast.Name) and node.id in _LOOKS_AT_VARIABLES
            and not (node.lineno < top and not self._called_later(node))
            for node in ast.walk(scope)
        )  # fmt: skip

    def _called_later(self, node: ast.AST) -> bool:
        """Whether it stands in a function, which may be called from anywhere."""
        while node in self._above:
            node = self._above[node]
            if isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.GeneratorExp)):
                return True
        return False

    def _top(self, node: ast.AST) -> ast.stmt:
        while not isinstance(self._above[node], ast.Module):
            node = self._above[node]
        assert isinstance(node, ast.stmt)
        return node

    def _scope(self, node: ast.AST) -> ast.AST:
        node = self._above[node]
        while not isinstance(node, (ast.Module, *_SCOPES)):
            node = self._above[node]
        return node


def _is_item(call: ast.Call) -> bool:
    plain = not call.args and not call.keywords
    return plain and isinstance(call.func, ast.Attribute) and call.func.attr == "item"


def _is_format(function: ast.expr) -> bool:
    """Whether it is `"a text".format`, whose fields are plain arguments with written formats."""
    if not isinstance(function, ast.Attribute) or function.attr != "format":
        return False
    text = getattr(function.value, "value", None)
    if not isinstance(text, str):
        return False
    return all(
        field is None or ((field.isidentifier() or field.isdigit() or not field)
        and not conversion and "{" not in (spec or ""))
        for _, field, spec, conversion in Formatter().parse(text)
    )  # fmt: skip


def _dotted(function: ast.expr) -> str:
    """`self.log.info` as text; empty for what is no chain of names."""
    if isinstance(function, ast.Name):
        return function.id
    if isinstance(function, ast.Attribute):
        owner = _dotted(function.value)
        return f"{owner}.{function.attr}" if owner else ""
    return ""
