"""Moves: the declared changes a technique is made of.

A move is data. The launcher applies it at run time (`hotlap.seam.moves`), the patcher writes it
into source, the linter recognises where it is missing, the docs render it.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import get_args, get_type_hints

from hotlap.core import choices
from hotlap.core.machine import Machine


@dataclass(frozen=True)
class Choice:
    """A value chosen by racing.

    `values` is the tuple of candidates, or the name of a function in `hotlap.core.choices` that
    gives them for this machine. `largest`: the greatest number that a recipe may give.
    """

    name: str
    values: tuple[object, ...] | str
    largest: int = choices.LARGEST

    def on(self, machine: Machine) -> tuple[object, ...]:
        """The candidates on this machine."""
        return self._maker()(machine) if isinstance(self.values, str) else self.values

    @property
    def kinds(self) -> frozenset[type]:
        """The candidates' types."""
        if isinstance(self.values, str):
            return frozenset(get_args(get_type_hints(self._maker())["return"])[:1])
        return frozenset(map(type, self.values))

    @property
    def wanted(self) -> str:
        """What a recipe may give: a range in place of numbers, and the other candidates."""
        numbers = [f"a number from 1 to {self.largest}"] if int in self.kinds else []
        others = [json.dumps(value) for value in self._known() if type(value) is not int]
        return " or ".join([*numbers, *others])

    def takes(self, value: object) -> bool:
        """Whether a recipe may give this value."""
        fits = not isinstance(value, str) or value in self._known()
        fits = fits and (type(value) is not int or 1 <= value <= self.largest)
        return fits and type(value) in self.kinds

    def _known(self) -> tuple[object, ...]:
        """The candidates of all machines; empty where they are numbers of this one."""
        return choices.NAMES.get(self.values, ()) if isinstance(self.values, str) else self.values

    def _maker(self) -> Callable[[Machine], tuple[object, ...]]:
        maker: Callable[[Machine], tuple[object, ...]] = getattr(choices, str(self.values))
        return maker


@dataclass(frozen=True)
class Keyword:
    """Pass `name=value` to `targets` where the caller gave nothing, or one of `over`.

    `absent=False` leaves calls alone that do not name the argument. `unless` lists (argument,
    value) pairs that keep a call as it is. `when` names a predicate `module:function` on the bound
    arguments, for what only the running program can tell.
    """

    targets: tuple[str, ...]
    name: str
    value: object
    over: tuple[object, ...] = (None,)
    absent: bool = True
    unless: tuple[tuple[str, object], ...] = ()
    when: str = ""


@dataclass(frozen=True)
class Flag:
    """Set a global attribute, such as `torch.backends.cudnn.benchmark`.

    A script that sets one of `unless` ((attribute or setter, value) pairs) is not to have it.
    """

    target: str
    value: object
    unless: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True)
class Env:
    """Set an environment variable before the process starts.

    Source cannot do that; `edit` (`module:function`) takes out what the variable makes needless.
    """

    name: str
    value: object
    edit: str = ""


@dataclass(frozen=True)
class Call:
    """Call a torch setter once; `getter` reads the value that undo puts back.

    `variable`: the environment variable that sets the same before the process starts, if any does.
    """

    target: str
    value: object
    getter: str
    variable: str = ""


@dataclass(frozen=True)
class Wrap:
    """Code is needed: `function` (`module:name`) enters as a context manager.

    `boundary` names the place in the loop it wraps: loader, root call, backward, step, tensor.
    `value` is the choice the function reads from its context, if it leaves one open. `edit`
    (`module:function`, in `hotlap.source.edits`) writes it into source; without one there is
    nothing to write.
    """

    boundary: str
    function: str
    value: object = None
    edit: str = ""


@dataclass(frozen=True)
class Swap:
    """Put another function in the place of a function or a method.

    `targets` are dotted names such as `torch.nn.functional.gelu` or `torch.nn.GELU.forward`. A
    class itself is never replaced: its method is, so that names imported elsewhere follow and
    pickled objects keep their class. `replacement` (`module:function`) takes the original and
    returns a function with the same signature, which may call the original for arguments that it
    does not serve; only a call that it serves itself counts as applied: it returns
    `NotImplemented` to hand the call on. `serves` names a predicate `module:function` on a call's
    arguments: the replacement gets only the calls for which it holds, and the profile asks it of
    the plain script's calls, so that a technique which would serve none of them is not raced.
    `requires` names a module that must be importable, `extra` the requirement to install for it.
    `written` is the public function (dotted name) that the
    patcher writes in the place of a call of the first target; without it there is nothing to write.
    """

    targets: tuple[str, ...]
    replacement: str
    serves: str = ""
    requires: str = ""
    extra: str = ""
    written: str = ""


Move = Keyword | Flag | Env | Call | Wrap | Swap


def variables(moves: Iterable[Move], values: Mapping[str, object]) -> dict[str, str]:
    """The environment variables that do the same as the moves; empty where none do."""
    found = {}
    for move in moves:
        name = move.name if isinstance(move, Env) else getattr(move, "variable", "")
        if name:
            raw = getattr(move, "value", None)
            found[name] = str(values[raw.name] if isinstance(raw, Choice) else raw)
    return found


def choice_of(move: Move) -> Choice | None:
    """Return the choice a move leaves open, if any."""
    value = getattr(move, "value", None)
    return value if isinstance(value, Choice) else None
