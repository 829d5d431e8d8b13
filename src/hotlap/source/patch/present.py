"""Which techniques of a recipe the source has by now: written by `hotlap patch`, or by hand."""

import shlex
from collections.abc import Sequence

from hotlap.core.recipe import Recipe
from hotlap.source.patch.files import files_of
from hotlap.source.patch.plan import patch
from hotlap.source.patch.text import File


def in_source(recipe: Recipe, command: Sequence[str]) -> frozenset[str]:
    """The techniques for which nothing is left to write in the files of a command.

    Nothing where the files cannot be told or read: whoever asks then takes the source as unknown.
    """
    try:
        files = [File.read(path) for path in files_of(shlex.join(command))]
        return frozenset(patch(recipe, files, files[0]).present)
    except Exception:  # it only decides how a run is announced, and must not be what ends it
        return frozenset()
