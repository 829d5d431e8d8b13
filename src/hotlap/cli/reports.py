"""The reports of a project: `.hotlap/reports`, a page and a document for each run, and an index."""

import datetime
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hotlap.cli.common import FOLDER, folder, headed
from hotlap.notebook.script import in_cells

if TYPE_CHECKING:
    from hotlap.core.recipe import Recipe

MOST = 200
"""Reports that are kept; the oldest go first."""


def keep(document: Mapping[str, object], diff: str = "") -> str:
    """Write the report of a run and the history's index; where it lies, or why there is none."""
    try:
        return f"report: {_write(document, diff)}"
    except OSError as error:
        return f"no report was written: {error.filename or FOLDER}: {error.strerror}"


def _write(document: Mapping[str, object], diff: str) -> Path:
    from hotlap.reporting.html import headline, history, page

    reports = folder() / "reports"
    reports.mkdir(exist_ok=True)
    now = datetime.datetime.now()
    found = in_cells(headed(document)) | {"date": now.strftime("%Y-%m-%d %H:%M")}
    name = f"{now:%Y-%m-%d-%H%M%S}-{found['verb']}"
    entry = {"file": f"{name}.html", "when": found["date"], "verb": found["verb"],
             "command": _command(found), "headline": headline(found)}  # fmt: skip
    target = reports / f"{name}.html"
    target.write_text(page(found, diff, index=True), "utf-8")
    (reports / f"{name}.json").write_text(json.dumps(found | {"entry": entry}, indent=2), "utf-8")
    for old in sorted(reports.glob("*-*.json"))[:-MOST]:
        for file in (old, old.with_suffix(".html")):
            file.unlink(missing_ok=True)
    (reports / "index.html").write_text(history(_entries(reports)), "utf-8")
    return Path(os.path.relpath(target))


def _entries(reports: Path) -> list[dict[str, str]]:
    """What the index lists, the newest first; a document that cannot be read is passed over."""
    found = []
    for path in sorted(reports.glob("*-*.json"), reverse=True):
        with suppress(OSError, ValueError, KeyError):
            found.append(json.loads(path.read_text("utf-8"))["entry"])
    return found


def _command(document: Mapping[str, object]) -> str:
    from hotlap.reporting.html import view

    return view(document).command


def recipe_diff(recipe: "Recipe") -> str:
    """The recipe as a diff of the source; empty where it cannot be written."""
    from hotlap.core.errors import HotlapError
    from hotlap.source.patch.files import files_of
    from hotlap.source.patch.plan import patch
    from hotlap.source.patch.text import File

    if not recipe.techniques:
        return ""
    try:
        files = [File.read(path) for path in files_of(recipe.measured)]
        done = patch(recipe, files, files[:1])
    except HotlapError:
        return ""
    return "".join(done.diff(file) for file in done.changed)
