"""`hotlap lint --fix`: what can be rewritten without a doubt, by the edits of `hotlap patch`."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.core.registry import technique, techniques
from hotlap.core.technique import Numerics
from hotlap.notebook.script import SUFFIX, notebook_of, write_script
from hotlap.source.config import Config
from hotlap.source.lint import Spot, lint_file
from hotlap.source.patch.plan import Patch, apply
from hotlap.source.patch.text import File


def fixes(spots: Iterable[Spot], config: Config) -> Patch:
    """The files of the findings with what can be rewritten safely; none of them is written.

    A notebook is there as the script that is made of it.

    A technique is written where a finding (no hint) names it, where it changes no result
    (numerics `exact`), and where the finding is gone afterwards and no other has come.
    """
    named: dict[Path, set[str]] = {}
    for spot in spots:
        if spot.technique in techniques() and not spot.hint:
            named.setdefault(spot.path, set()).add(spot.technique)
    done = Patch({})
    for path, names in named.items():
        try:
            file = File.read(write_script(path) if path.suffix == SUFFIX else path)
        except UsageError:
            continue
        done.texts[file] = _fixed(file, sorted(names), config)
    return done


def fixed(done: Patch, config: Config) -> dict[Path, int]:
    """How many findings (no hints) each changed file or notebook has less than before."""
    found = {}
    for file, text in done.changed.items():
        before, after = (_findings(file, one, config) for one in (file.text, text))
        found[Path(notebook_of(str(file.path)) or file.path)] = len(before) - len(after)
    return found


def _fixed(file: File, names: list[str], config: Config) -> str:
    text = file.text
    for name in names:
        if technique(name).numerics is not Numerics.EXACT or technique(name).choices:
            continue
        trial = Patch({file: text})
        apply(name, _NO_VALUES, trial, ())
        before, after = (_findings(file, one, config) for one in (text, trial.texts[file]))
        gone = sum(spot.technique == name for spot in before) - sum(
            spot.technique == name for spot in after
        )
        if gone > 0 and len(after) == len(before) - gone:
            text = trial.texts[file]
    return text


_NO_VALUES: Mapping[str, object] = {}


def _findings(file: File, text: str, config: Config) -> list[Spot]:
    return [spot for spot in lint_file(file.path, file.content(text), config) if not spot.hint]
