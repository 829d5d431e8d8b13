"""The files of a project together: whom each imports, and what they tell one another.

Files that import one another, directly or by way of others, make a *component*. What a component
says of an option or a trait holds for all its files; two examples in one repository stay apart.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from hotlap.source import steps
from hotlap.source.imports import Files
from hotlap.source.passed import DDP, Passed
from hotlap.source.summary import UNKNOWN_DEFAULT, ClassSummary, Literal, Summary

_DEEPEST = 6
_EXAMPLES = frozenset(
    {"example", "examples", "benchmark", "benchmarks", "tutorials", "docs", "demo"}
)


class Unknown:
    """Stands for a value that the project does not tell."""


UNKNOWN = Unknown()
Reader = Callable[[Path], Summary | None]
Value = TypeVar("Value")


class Project:
    """The summaries of a project's files, linked by their imports."""

    def __init__(self, root: Path, summaries: Mapping[Path, Summary], read: Reader) -> None:
        """`read` gives the summary of a file that an import leads to; None: it has none."""
        self._read = read
        self.summaries = dict(summaries)
        self._files = Files(root, self.summaries)
        self._of: dict[Path, Component] = {}
        self._link()

    def view(self, path: Path) -> "View":
        """The project as one of its files sees it."""
        return View(self, path)

    def component(self, path: Path) -> "Component":
        """The files that a file is connected with by imports, itself included."""
        if path not in self._of:
            own = {path: self.summaries[path]} if path in self.summaries else {}
            self._of[path] = Component(own)
        return self._of[path]

    def locate(self, path: Path, dotted: str) -> tuple[Path, str] | None:
        """The file that a dotted name, as used in another file, lies in, and the rest of it."""
        return self._files.locate(path, dotted)

    def _link(self) -> None:
        waiting = list(self.summaries)
        neighbours: dict[Path, set[Path]] = {path: set() for path in waiting}
        while waiting:
            path = waiting.pop()
            for module in self.summaries[path].modules:
                found = self.locate(path, module)
                if found is None or found[0] == path or self._example_of(path, found[0]):
                    continue
                if not self._known(found[0]):
                    continue
                if found[0] not in neighbours:
                    neighbours[found[0]] = set()
                    waiting.append(found[0])
                neighbours[path].add(found[0])
                neighbours[found[0]].add(path)
        self._group(neighbours)

    def _example_of(self, path: Path, other: Path) -> bool:
        """Whether a file is an example of a library in the same tree, which is none of its own."""
        own, its = (self._files.top(one) for one in (path, other))
        return own != its and own in _EXAMPLES and other.parent != path.parent

    def _known(self, path: Path) -> bool:
        if path not in self.summaries:
            found = self._read(path)
            if found is None:
                return False
            self.summaries[path] = found
        return True

    def _group(self, neighbours: dict[Path, set[Path]]) -> None:
        for start in neighbours:
            if start in self._of:
                continue
            group, waiting = {start}, [start]
            while waiting:
                fresh = neighbours[waiting.pop()] - group
                group |= fresh
                waiting += fresh
            told = {path: self.summaries[path] for path in sorted(group)}
            self._of.update(dict.fromkeys(group, Component(told)))


class Component:
    """What the files that import one another tell together; each part made when first asked for."""

    def __init__(self, summaries: Mapping[Path, Summary]) -> None:
        self._summaries = summaries

    @property
    def files(self) -> int:
        """How many files there are."""
        return len(self._summaries)

    @cached_property
    def digest(self) -> str:
        """Stands for all that the files tell."""
        told = [(str(path), one.to_dict()) for path, one in sorted(self._summaries.items())]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    @cached_property
    def traits(self) -> frozenset[str]:
        """What any of the files mentions."""
        return frozenset(trait for one in self._summaries.values() for trait in one.traits)

    @cached_property
    def guarded(self) -> frozenset[str]:
        """The functions that any of the files calls with gradients switched off."""
        return frozenset(name for one in self._summaries.values() for name in one.guarded)

    @cached_property
    def stepped(self) -> frozenset[str]:
        """The functions of the files that run at each step of a training loop in one of them."""
        return steps.closure([one.calls for one in self._summaries.values()])

    @cached_property
    def steppers(self) -> frozenset[str]:
        """The functions of the files that make one step each time they run."""
        return steps.steppers([one.calls for one in self._summaries.values()])

    @cached_property
    def wrapped(self) -> frozenset[str]:
        """The slots (`passed.slot`) of the files that hold a model wrapped by DDP.

        A function or class that two files define is known by neither's calls.
        """
        files = self._summaries.values()
        defined = Counter(name.removeprefix(".") for s in files for name in (*s.calls, *s.classes))
        onward: dict[str, list[str]] = {}
        for start, end in (edge for one in files for edge in one.edges):
            if defined[end.partition("(")[0].partition(".")[0]] == 1:
                onward.setdefault(start, []).append(end)
        found: set[str] = set()
        waiting = onward.get(DDP, [])
        while waiting:
            held = waiting.pop()
            if held not in found:
                found.add(held)
                waiting += onward.get(held, [])
        return frozenset(found)

    @cached_property
    def passed(self) -> dict[str, list[Passed]]:
        """The arguments of each call that makes an object, by the name of its class."""
        return _merged(one.passed for one in self._summaries.values())

    @cached_property
    def options(self) -> dict[str, list[Literal]]:
        """The defaults of each option, of all files."""
        return _merged(one.options for one in self._summaries.values())


def _merged(tables: Iterable[Mapping[str, list[Value]]]) -> dict[str, list[Value]]:
    """One table of lists from several, entry by entry."""
    found: dict[str, list[Value]] = {}
    for table in tables:
        for name, values in table.items():
            found.setdefault(name, []).extend(values)
    return found


class View:
    """What a file of a project may ask about the others."""

    def __init__(self, project: Project, path: Path) -> None:
        self._project, self.path = project, path

    @property
    def own(self) -> Summary:
        """The summary of the file itself."""
        return self._project.summaries.get(self.path, Summary())

    @property
    def digest(self) -> str:
        """Stands for all that the view can tell; the same for the same component."""
        return self._component.digest

    @property
    def alone(self) -> bool:
        """Whether no other file of the project is connected with this one."""
        return self._component.files <= 1

    def has(self, trait: str) -> bool:
        """Whether a file of the component mentions something (`summary.traits`)."""
        return trait in self._component.traits

    @property
    def runs_in_steps(self) -> bool:
        """Whether a training loop of another file runs a function of this one at each step."""
        return any(map(self.stepped, self.own.calls))

    def guarded(self, function: str) -> bool:
        """Whether a file of the component calls a function of this name without gradients."""
        return function in self._component.guarded

    def passed(self, class_name: str, parameter: str, position: int) -> list[int | None]:
        """What the files of the component pass for a parameter of a class, call by call."""
        return [one.get(parameter, one.get(str(position)))
                for one in self._component.passed.get(class_name, [])]  # fmt: skip

    def wrapped(self, slot: str) -> bool:
        """Whether a parameter or an attribute (`passed.slot`) holds a model wrapped by DDP."""
        return slot in self._component.wrapped

    def stepped(self, function: str) -> bool:
        """Whether a training loop of the component runs a function (`steps.key`) at each step."""
        return function in self._component.stepped

    @property
    def steppers(self) -> frozenset[str]:
        """The functions (`steps.key`) of the component that make one step each time they run."""
        return self._component.steppers

    def option(self, name: str) -> object:
        """The default of an option or of a configuration's field, or UNKNOWN.

        Where files disagree, the one that stands in this file counts.
        """
        for options in (self.own.options, self._component.options):
            values = options.get(name, [])
            if values:
                known = values[0] != UNKNOWN_DEFAULT
                same = len({(type(value), value) for value in values}) == 1
                return values[0] if known and same else UNKNOWN
        return UNKNOWN

    @cached_property
    def _component(self) -> Component:
        return self._project.component(self.path)

    def constant(self, dotted: str) -> object:
        """The value of a constant of another module, or UNKNOWN."""
        found = self._definition(dotted, lambda summary, name: name in summary.constants)
        return found[1].constants[found[2]] if found else UNKNOWN

    def class_of(self, dotted: str) -> "tuple[ClassSummary, View] | None":
        """A class of the project by its dotted name, and the view of the file it stands in."""
        found = self._definition(dotted, lambda summary, name: name in summary.classes)
        return (found[1].classes[found[2]], View(self._project, found[0])) if found else None

    def slow(self, dotted: str) -> str:
        """What a function of another module does that is slow; empty when it does nothing such."""
        found = self._definition(dotted, lambda summary, name: name in summary.slow)
        return found[1].slow[found[2]] if found else ""

    def bases(self, dotted: str) -> Iterable[str]:
        """The bases, outside of the project, of a class of the project."""
        waiting, seen = [(dotted, self)], 0
        while waiting and seen < _DEEPEST * 4:
            seen += 1
            name, view = waiting.pop()
            found = view.class_of(name)
            if found is None:
                yield name
            else:
                waiting += [(base, found[1]) for base in found[0].bases]

    def modal(self, dotted: str) -> bool | None:
        """Whether a model works differently in evaluation; None where the project does not tell."""
        waiting, seen = [(dotted, self)], set[Path]()
        while waiting:
            name, view = waiting.pop()
            found = view.class_of(name)
            if found is None or found[1].path in seen:
                continue
            seen.add(found[1].path)
            if "modal" in found[1].own.traits:
                return True
            waiting += [(one, found[1]) for one in (*found[0].calls, *found[0].bases)]
        return False if seen else None

    def _definition(
        self, dotted: str, holds: Callable[[Summary, str], bool]
    ) -> tuple[Path, Summary, str] | None:
        path, name = self.path, dotted
        for _ in range(_DEEPEST):
            own = self._project.summaries.get(path)
            if own is None or not name:
                return None
            if holds(own, name):
                return path, own, name
            head, _, rest = name.partition(".")
            if head in own.names:
                name = own.names[head] + (f".{rest}" if rest else "")
            elif not name.startswith(".") and self._project.locate(path, name) is None:
                name = next((f"{star}.{name}" for star in own.stars if
                             self._star_holds(path, star, name)), "")  # fmt: skip
            located = self._project.locate(path, name) if name else None
            if located is None:
                return None
            path, name = located
        return None

    def _star_holds(self, path: Path, star: str, name: str) -> bool:
        found = self._project.locate(path, star)
        summary = self._project.summaries.get(found[0]) if found else None
        return summary is not None and (
            name in summary.classes or name in summary.constants or name in summary.slow
            or name in summary.names
        )  # fmt: skip
