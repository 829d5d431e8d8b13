"""The whole recipe over all files: technique by technique, each on the text the last one left."""

import ast
import difflib
import io
import re
import shlex
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hotlap.core import trainers
from hotlap.core.errors import UsageError
from hotlap.core.machine import NO_GPU
from hotlap.core.move import Move
from hotlap.core.recipe import Measured, Recipe
from hotlap.core.registry import technique
from hotlap.core.trainers import TRAINERS
from hotlap.notebook.script import notebook_of
from hotlap.source.module import Source
from hotlap.source.patch.draft import Draft, Remark, UnsureError
from hotlap.source.patch.files import files_of
from hotlap.source.patch.layout import fitted
from hotlap.source.patch.moves import can_write, write
from hotlap.source.patch.notebook_cells import cell_diff
from hotlap.source.patch.text import File

_IMPORTS_HOTLAP = re.compile(r"^\s*(?:from|import) hotlap\b", re.MULTILINE)
Classes = dict[str, tuple[Source, ast.ClassDef]]


@dataclass(frozen=True)
class Note:
    """What a technique leaves to a person: file, line (0: the file as a whole), and what to do."""

    technique: str
    path: str
    line: int
    text: str

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True)
class Change:
    """A run of lines that is rewritten: its first line in the new text, old lines and new ones.

    The lines are dedented together; blank ones are left out.
    """

    line: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def _change(line: int, old: Sequence[str], new: Sequence[str]) -> Change:
    rows = textwrap.dedent("".join(map(_ended, (*old, *new)))).splitlines()
    parts = rows[: len(old)], rows[len(old) :]
    before, after = (tuple(row.rstrip() for row in part if row.strip()) for part in parts)
    return Change(line, before, after)


@dataclass
class Patch:
    """The new text of each file, which techniques were written, which were there, what is left.

    `cuda`: whether it is for a machine with a GPU, as far as its recipe says.
    """

    texts: dict[File, str]
    written: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    cuda: bool = True

    @property
    def changed(self) -> dict[File, str]:
        """The files whose text is another now."""
        return {file: text for file, text in self.texts.items() if text != file.text}

    @property
    def imports_hotlap(self) -> bool:
        """Whether a changed file imports hotlap, so that it runs only where that is installed."""
        return any(_IMPORTS_HOTLAP.search(text) for text in self.changed.values())

    def changes(self, file: File) -> list[Change]:
        """The places of a file that are rewritten: runs of lines that were changed or added."""
        before, after = _lines(file.text), _lines(self.texts[file])
        found = difflib.SequenceMatcher(None, before, after, False).get_opcodes()
        return [
            _change(to + 1, before[first:last], after[to:end])
            for tag, first, last, to, end in found
            if tag != "equal"
        ]

    def diff(self, file: File) -> str:
        """The change of one file as a unified diff that `git apply` and `patch -p1` take.

        Of a notebook: the changes of its cells, for reading.
        """
        if notebook_of(str(file.path)):
            return cell_diff(file, self.texts[file])
        before, after = _lines(file.text), _lines(self.texts[file])
        name = file.path.as_posix()
        found = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
        return "".join(_ended(line) for line in found)


def patch(recipe: Recipe, files: Sequence[File], started: Collection[File] | None = None) -> Patch:
    """Write a recipe into files; nothing is written to disk.

    `started` are the scripts that commands start; by default the only file, or each one that runs
    its `main`.

    Raises:
        UsageError: a file is not Python, or no file is given.
    """
    if not files:
        raise UsageError("there is no file to patch", "name the script: hotlap patch train.py")
    done = Patch({file: file.text for file in files}, cuda=NO_GPU not in recipe.measured.machine)
    started = _started(files) if started is None else started
    for name in _ordered(recipe.techniques):
        apply(name, recipe.techniques[name].values, done, started)
    return done


def in_source(recipe: Recipe, command: Sequence[str]) -> frozenset[str]:
    """The techniques for which nothing is left to write in the files of a command.

    Nothing where the files cannot be told or read: whoever asks then takes the source as unknown.
    """
    measured = recipe.measured
    if shlex.join(command) != measured.command:
        measured = Measured(command=shlex.join(command))
    try:
        files = [File.read(path) for path in files_of(measured)]
        return frozenset(patch(recipe, files, files[:1]).present)
    except Exception:  # it only decides how a run is announced, and must not be what ends it
        return frozenset()


def _ordered(names: Mapping[str, object]) -> list[str]:
    """Techniques that join others come after them: they see what those have written."""
    return sorted(names, key=lambda name: bool(technique(name).joins))


def apply(name: str, values: Mapping[str, object], done: Patch, started: Collection[File]) -> None:
    """Write one technique into the texts of a patch; what cannot be written becomes a note.

    `started`: the scripts that commands start.
    """
    record = technique(name)
    moves = [move for move in record.moves if can_write(move)]
    state = _State(name)
    for found in (
        _for_trainer(name, values, done, state, own_loop=True),
        moves,
        _for_trainer(name, values, done, state, own_loop=False),
    ):
        if not (state.written or state.present or state.notes):
            _write(found, state, done, values, started)
    if not moves and not (state.written or state.present):
        text = f"`hotlap run` applies it, patch has no edit for it: {record.title.lower()}"
        if record.examples:
            text += f"; `hotlap explain {name}` shows it by hand"
        state.fallbacks = [Note(name, _any(done, started), 0, text)]
    state.close(done, f"no place for it was found: {record.title.lower()} by hand")


def _for_trainer(
    name: str, values: Mapping[str, object], done: Patch, state: "_State", *, own_loop: bool
) -> Iterator[Move]:
    """The option of a trainer that does what a technique does, if one is made in the files.

    What has to be passed along with it comes once it is written.
    """
    for trainer, moves in trainers.moves(name, values, cuda=done.cuda).items():
        if TRAINERS[trainer].own_loop != own_loop:
            continue
        made = re.compile(rf"\b{TRAINERS[trainer].takes}\(")
        imported = re.compile(rf"^\s*(?:from|import)\s+(?:pytorch_)?{trainer}\b", re.MULTILINE)
        if any(made.search(text) and imported.search(text) for text in done.texts.values()):
            first, *along = moves
            yield first
            if state.written or state.present:
                yield from along


def _write(
    moves: Iterable[Move],
    state: "_State",
    done: Patch,
    values: Mapping[str, object],
    started: Collection[File],
) -> None:
    for move in moves:
        drafts = [_drafted(file, text, done, move, values, entry=file in started)
                  for file, text in done.texts.items()]  # fmt: skip
        for file, draft in zip(done.texts, drafts, strict=True):
            state.take(file, draft)
        done.texts |= {
            file: fitted(file.text, draft.changes.rendered())
            for file, draft in zip(done.texts, drafts, strict=True)
            if draft.changes
        }


@dataclass
class _State:
    """What one technique has come to, over all files.

    `fallbacks` are for where no file has a place: of the file that knows lines, of the script that
    a command starts, or of the first one (`weight`).
    """

    name: str
    written: bool = False
    present: bool = False
    notes: list[Note] = field(default_factory=list)
    fallbacks: list[Note] = field(default_factory=list)
    weight: tuple[bool, bool] = (False, False)

    def take(self, file: File, draft: Draft) -> None:
        self.written |= bool(draft.changes)
        self.present |= draft.already
        path = file.path.as_posix()
        self.notes += [Note(self.name, path, r.line, r.text) for r in draft.remarks]
        weight = (any(r.line for r in draft.fallbacks), draft.entry)
        if draft.fallbacks and (not self.fallbacks or weight > self.weight):
            self.weight = weight
            self.fallbacks = [Note(self.name, path, r.line, r.text) for r in draft.fallbacks]

    def close(self, done: Patch, otherwise: str) -> None:
        if self.written:
            done.written.append(self.name)
        elif self.present and not self.notes:
            done.present.append(self.name)
        elif not self.notes:
            path = next(iter(done.texts)).path.as_posix()
            self.notes += self.fallbacks or [Note(self.name, path, 0, otherwise)]
        done.notes += dict.fromkeys(self.notes)


def _drafted(
    file: File, text: str, done: Patch, move: Move, values: Mapping[str, object], *, entry: bool
) -> Draft:
    texts = done.texts.values()
    draft = Draft(file.path, text, file.encoding, entry, _Lazy(done.texts), values, texts)
    try:
        write(move, draft)
    except UnsureError as unsure:
        line = getattr(unsure.node, "lineno", 0)
        return Draft(file.path, text, file.encoding, remarks=[Remark(line, str(unsure))])
    except SyntaxError as error:
        raise UsageError(f"{file.path}:{error.lineno or 1} is not Python: {error.msg}") from None
    return draft


class _Lazy(Mapping[str, tuple[Source, ast.ClassDef]]):
    """The classes of all files by name, looked at when first asked for; a name used twice: none."""

    def __init__(self, texts: Mapping[File, str]) -> None:
        self._texts = dict(texts)
        self._found: Classes | None = None

    def __getitem__(self, name: str) -> tuple[Source, ast.ClassDef]:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> Classes:
        if self._found is None:
            every = [
                (node.name, (source, node))
                for file, text in self._texts.items()
                for source in [Source(file.path, text.encode(file.encoding))]
                for node in source.tree.classes
            ]
            names = [name for name, _ in every]
            self._found = {name: found for name, found in every if names.count(name) == 1}
        return self._found


def _any(done: Patch, started: Collection[File]) -> str:
    return next(iter([*started, *done.texts])).path.as_posix()


def _started(files: Sequence[File]) -> Sequence[File]:
    if len(files) == 1:
        return files
    return [file for file in files if '__name__ == "__main__"' in file.text.replace("'", '"')]


def _lines(text: str) -> list[str]:
    """The lines with their ends, parted at newlines alone."""
    return list(io.StringIO(text, newline="\n"))


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
