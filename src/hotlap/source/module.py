"""One source file, parsed once, with all that the checks ask about it."""

import ast
import io
import re
import tokenize
from functools import cached_property
from pathlib import Path

from hotlap.source.infer import inferred
from hotlap.source.loops import Loops
from hotlap.source.names import Names
from hotlap.source.project import Project, View
from hotlap.source.script_model import ScriptModel
from hotlap.source.signatures import POSITIONS
from hotlap.source.summary import Summary, summary
from hotlap.source.tree import Tree, opaque, text
from hotlap.source.values import Values

_IGNORE = re.compile(r"#\s*hotlap:\s*ignore(?:\[([\w\s,-]*)\])?")


class Source:
    """A module's text, tree, names, values and loops; each made when first asked for.

    Raises:
        SyntaxError: the text is not Python, or not text.
    """

    def __init__(self, path: Path, content: bytes, project: View | None = None) -> None:
        """`project`: what the other files of the project tell; None: this file stands alone."""
        self.path = path
        self.content = content
        self._project = project
        self.tree = Tree(_parse(content))

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the file, without their ends."""
        encoding, _ = tokenize.detect_encoding(io.BytesIO(self.content).readline)
        text = self.content.decode(encoding, "replace")
        return io.StringIO(text, newline=None).read().split("\n")

    @cached_property
    def summary(self) -> Summary:
        """What this file tells the others."""
        return summary(self.tree, self.names, self.content)

    @cached_property
    def project(self) -> View:
        """What the files of its project tell."""
        if self._project is not None:
            return self._project
        return Project(self.path.parent, {self.path: self.summary}, lambda _: None).view(self.path)

    @cached_property
    def names(self) -> Names:
        """Dotted names."""
        return Names(self.tree)

    @cached_property
    def values(self) -> Values:
        """Kinds of variables."""
        return inferred(self.tree, self.names, self.project)

    @cached_property
    def script(self) -> ScriptModel:
        """Optimizers, model, loaders, steps."""
        return ScriptModel(self.tree, self.names, self.values)

    @cached_property
    def loops(self) -> Loops:
        """What runs at each step, and where gradients are off."""
        return Loops(self.script, self.project)

    @cached_property
    def by_name(self) -> dict[str, list[ast.Call]]:
        """The calls of each dotted name."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.tree.calls:
            if dotted := self.names.of(call.func):
                found.setdefault(dotted, []).append(call)
        return found

    def calls(self, *dotted: str) -> list[ast.Call]:
        """The calls of these names, in the order of the source."""
        found = [call for name in dotted for call in self.by_name.get(name, [])]
        return sorted(found, key=lambda call: (call.lineno, call.col_offset))

    def arguments(self, call: ast.Call, target: str = "") -> dict[str, ast.expr] | None:
        """The arguments of a call by name, those of `**options` included where they are known.

        Those by position have names where `signatures` knows what is called (or `target`). None:
        the call takes arguments that the file does not spell out.
        """
        positions = POSITIONS.get(target or self.names.of(call.func), ())
        found = dict(zip(positions, call.args, strict=False))
        found |= {entry.arg: entry.value for entry in call.keywords if entry.arg is not None}
        for entry in call.keywords:
            if entry.arg is None:
                options = self._options(entry.value)
                if options is None:
                    return None
                found.update(options)
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return None
        return found

    def ignored(self, line: int, name: str) -> bool:
        """Whether a line says `# hotlap: ignore` or `# hotlap: ignore[name]`."""
        match = _IGNORE.search(self.lines[line - 1]) if 0 < line <= len(self.lines) else None
        if match is None:
            return False
        return match[1] is None or name in {part.strip() for part in match[1].split(",")}

    def _options(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """The entries of a dictionary that is written out, here or where its name is assigned.

        Those of either branch of a condition count.
        """
        if isinstance(node, ast.Name):
            return self._gathered(node.id)
        if isinstance(node, ast.IfExp):
            return _merged([self._options(node.orelse), self._options(node.body)])
        if isinstance(node, ast.Dict):
            keys = [k.value for k in node.keys if isinstance(k, ast.Constant)]
            if len(keys) < len(node.keys) or not all(isinstance(key, str) for key in keys):
                return None
            return dict(zip(map(str, keys), node.values, strict=True))
        if isinstance(node, ast.Call) and self.names.of(node.func) == "dict" and not opaque(node):
            return {entry.arg: entry.value for entry in node.keywords if entry.arg}
        return None

    def _gathered(self, name: str) -> dict[str, ast.expr] | None:
        """What the assignments of a dictionary's name, its entries and its updates add up to."""
        parts: list[dict[str, ast.expr] | None] = []
        for node in self.tree.nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    parts += [self._options(value) for target in targets if text(target) == name]
                    parts += [
                        _entry(target, value) for target in targets if _entry_of(target, name)
                    ]
                case ast.AugAssign(target=target, value=value) if text(target) == name:
                    parts.append(self._options(value))
                case ast.Call(func=ast.Attribute(attr="update", value=owner)) if (
                    text(owner) == name
                ):
                    parts.append(self._updates(node, name))
                case ast.arg(arg=parameter) if parameter == name:
                    parts.append(None)
        return _merged(parts)

    def _updates(self, call: ast.Call, name: str) -> dict[str, ast.expr] | None:
        """The entries that `options.update(...)` adds."""
        if len(call.args) == 1 and text(call.args[0]) == name:
            return {}
        parts = [self._options(argument) for argument in call.args]
        return _merged([*parts, {word.arg: word.value for word in call.keywords if word.arg}])


def _entry_of(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Subscript) and text(target.value) == name


def _entry(target: ast.expr, value: ast.expr) -> dict[str, ast.expr] | None:
    """`options["num_workers"] = 4`."""
    key = target.slice if isinstance(target, ast.Subscript) else None
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        return {key.value: value}
    return None


def _merged(parts: list[dict[str, ast.expr] | None]) -> dict[str, ast.expr] | None:
    """The entries of several dictionaries, later ones first; None where one is not known."""
    found: dict[str, ast.expr] = {}
    for part in parts:
        if part is None:
            return None
        found.update(part)
    return found if parts else None


def _parse(content: bytes) -> ast.Module:
    try:
        return ast.parse(content)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or type(error).__name__) from None
