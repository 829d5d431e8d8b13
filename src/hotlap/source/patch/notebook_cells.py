"""Changes of a notebook's script as changes of its cells."""

import difflib
from collections.abc import Mapping
from pathlib import Path

from hotlap.notebook.script import Notebook, notebook_of
from hotlap.source.patch.text import File


def cell_diff(file: File, text: str) -> str:
    """The change of each cell as a unified diff, for reading; empty where no cell changed."""
    notebook = Notebook(Path(notebook_of(str(file.path))))
    found = []
    for number, before, after in notebook.write_back(file.text, text):
        name = f"{notebook.path.as_posix()}:cell {number}"
        lines = difflib.unified_diff(
            before.split("\n"), after.split("\n"), f"a/{name}", f"b/{name}", lineterm=""
        )
        found += [f"{line}\n" for line in lines]
    return "".join(found)


def as_written(changed: Mapping[File, str]) -> dict[File, str]:
    """The files to write: in the place of a notebook's script the notebook itself."""
    found = {}
    for file, text in changed.items():
        name = notebook_of(str(file.path))
        if not name:
            found[file] = text
            continue
        notebook = Notebook(Path(name))
        notebook.write_back(file.text, text)
        found[File(notebook.path, notebook.text, "utf-8")] = notebook.dumped()
    return found
