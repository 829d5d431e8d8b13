"""`hotlap patch`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotlap.cli.common import NEGATIVE, console, json_option, print_json, quiet_option, say

if TYPE_CHECKING:
    from hotlap.core.recipe import Recipe
    from hotlap.source.patch.plan import Patch


@click.command()
@click.option("--write", is_flag=True, help="Change the files instead of showing the diff.")
@click.option("--check", is_flag=True, help="Exit with 1 if something would change; for CI.")
@click.option(
    "--recipe",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("hotlap.toml"),
    show_default=True,
    help="The recipe to write into the source.",
)
@json_option
@quiet_option
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILES]...")
@click.pass_context
def patch(ctx: click.Context, write: bool, check: bool, recipe: Path, as_json: bool,
          quiet: bool, files: tuple[Path, ...]) -> None:  # fmt: skip
    """Show the recipe as a unified diff of the source; --write changes the files.

    FILES: Python files, notebooks, and folders, of which all are taken that `hotlap lint` takes.
    Without FILES: the script of the recipe's command, and what it imports from this folder.
    Of a notebook the cells are rewritten.
    What cannot be written safely is named on stderr, with its place and what to do by hand.
    """
    from hotlap.core.errors import UsageError

    if write and check:
        raise UsageError("--write and --check exclude each other")
    done = _planned(recipe, files)
    changed = done.changed
    if write:
        from hotlap.source.patch.notebook_cells import as_written
        from hotlap.source.patch.text import write_all

        write_all(as_written(changed))
    if as_json:
        print_json(_document(done, written=write))
    else:
        _show(done, written=write, brief=quiet)
    ctx.exit(NEGATIVE if check and changed else 0)


def _planned(recipe: Path, names: tuple[Path, ...]) -> "Patch":
    from hotlap.core.recipe import Recipe
    from hotlap.notebook.script import SUFFIX, write_script
    from hotlap.source.patch.files import files_of
    from hotlap.source.patch.plan import patch as planned
    from hotlap.source.patch.text import File

    found = Recipe.read(recipe)
    paths = [_below_here(path) for path in _expanded(names)]
    paths = [write_script(path) if path.suffix == SUFFIX else path for path in paths] or files_of(
        found.measured
    )
    files = [File.read(path) for path in dict.fromkeys(paths)]
    if not names:
        return planned(found, files, files[:1])
    _warn_of_others(found, paths)
    named = [file for file in files if file.path.name == found.measured.script]
    if len(named) > 1:  # which of them was started is not known
        return planned(found, files, ())
    return planned(found, files, named or None)


def _warn_of_others(recipe: "Recipe", paths: Iterable[Path]) -> None:
    """Say so where none of the files belongs to the program that the recipe was measured with."""
    from hotlap.core.errors import UsageError
    from hotlap.source.patch.files import files_of

    try:
        known = {path.resolve() for path in files_of(recipe.measured)}
    except UsageError:  # its command is not known, or starts no file of here
        return
    if known.isdisjoint(path.resolve() for path in paths):
        say(
            f"hotlap: the recipe was measured with `{recipe.measured.command}`, which none of "
            "these files belongs to: it may slow down or change another program; `hotlap tune` "
            "measures one for it",
            indent="  ",
        )


def _expanded(names: tuple[Path, ...]) -> Iterator[Path]:
    """The files that are named, and those of the folders that are."""
    from hotlap.source.config import read_config
    from hotlap.source.files import python_files

    for name in names:
        yield from python_files([name], read_config(Path.cwd())) if name.is_dir() else [name]


def _below_here(path: Path) -> Path:
    """A path as a diff names it: from the working directory, where it lies below that."""
    here = Path.cwd()
    absolute = path.absolute()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else path


def _document(done: "Patch", *, written: bool) -> dict[str, object]:
    return {
        "written": written,
        "imports_hotlap": done.imports_hotlap,
        "files": [
            {"path": str(file.path), "diff": done.diff(file)} for file in done.changed
        ],
        "techniques": {
            **dict.fromkeys(done.written, "written"),
            **dict.fromkeys(done.present, "there already"),
        },
        "by_hand": [
            {"technique": n.technique, "path": n.path, "line": n.line or None,
             "place": n.place, "text": n.text}
            for n in done.notes
        ],
    }  # fmt: skip


def _show(done: "Patch", *, written: bool, brief: bool) -> None:
    from hotlap.reporting import patch_text

    if not written:
        patch_text.show_diff(console(), done)
    elif not brief:
        patch_text.show_written(console(err=True), done)
    if not brief:
        patch_text.show_lists(console(err=True), done, written=written)
    patch_text.show_notes(console(err=True), done)
