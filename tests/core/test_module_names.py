"""One name, one thing: modules and public classes of the packages that keep to it."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import hotlap

SOURCE = Path(hotlap.__file__).parent
LIBRARY = {"common", "data", "engine", "kernels", "memory", "model", "optim", "parallel"}
KEPT = {"batch", "engine", "launch", "lr", "memory", "optim", "parallel", "plan"}
RESERVED_CLASSES = {"Found", "Row", "Source", "Spread"}


def modules(library: bool) -> dict[str, list[Path]]:
    """File names of a half, and the packages they stand in."""
    found = defaultdict(list)
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        # a verb's module has the verb's name, and a technique's its id
        named_by_user = parts[0] in {"cli", "techniques"}
        if len(parts) == 1 or path.name.startswith("__") or named_by_user:
            continue
        if (parts[0] in LIBRARY) == library:
            found[path.name].append(path.relative_to(SOURCE))
    return found


@pytest.mark.parametrize("library", [False, True])
def test_modules_have_names_of_their_own_within_a_half(library: bool) -> None:
    twice = {
        name: sorted(map(str, paths))
        for name, paths in modules(library).items()
        if len(paths) > 1 and any(path.parts[0] in KEPT for path in paths)
    }
    assert not twice


def test_classes_are_not_named_after_what_any_class_could_be() -> None:
    named = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for package in KEPT
        for path in (SOURCE / package).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name in RESERVED_CLASSES
    ]
    assert not named


def test_no_module_takes_the_place_of_a_public_function_of_hotlap() -> None:
    """Importing `hotlap.x` sets the attribute `x` of the package, whatever was there."""
    modules = {path.stem for path in SOURCE.iterdir()}
    assert not modules & set(hotlap.__all__)
