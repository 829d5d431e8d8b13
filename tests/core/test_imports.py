"""No circles among modules; each part of the library works without those above and beside it."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from import_graph import circles, import_graph

import hotlap

SOURCE = Path(hotlap.__file__).parent
PARTS = ("data", "engine", "kernels", "memory", "model", "optim", "parallel")
NEEDS = {"engine": {"data"}, "model": {"data", "optim"}, "parallel": {"optim"}}
OPTIONAL = ("hotlap.kernels.triton_code", "hotlap.kernels.check.__main__")

ALONE = """
import importlib, json, os, pkgutil, sys, traceback
import torch._dynamo  # once for all parts
forbidden, optional = json.loads(sys.argv[1]), sys.argv[2].split(",")

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[1:2] and name.startswith("hotlap.") and name.split(".")[1] in blocked:
            raise ImportError(f"{part} imports {name}")

def alone():
    sys.meta_path.insert(0, Blocker())
    package = importlib.import_module(f"hotlap.{part}")
    for module in pkgutil.walk_packages(package.__path__, f"hotlap.{part}."):
        if not module.name.endswith("__main__") and module.name not in optional:
            importlib.import_module(module.name)
    for name in getattr(package, "__all__", ()):
        getattr(package, name)

failed = 0
for part, blocked in forbidden.items():
    if not os.fork():
        try:
            alone()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    failed += os.wait()[1] != 0
sys.exit(failed)
"""


def test_a_circle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "made"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from made.two import b\n")
    (package / "two.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from made import three\n"
    )
    (package / "three.py").write_text("def f():\n    import made.one\n")
    (package / "four.py").write_text("import made.one\n")
    assert circles(import_graph(package)) == [["made.one", "made.three", "made.two"]]


def test_no_modules_import_one_another() -> None:
    assert circles(import_graph(SOURCE)) == []


RENAMED = [("optim", "make", "create_optimizer"), ("parallel", "apply", "parallelize")]


@pytest.mark.parametrize(("part", "old", "new"), RENAMED)
def test_old_names_still_work_and_warn(part: str, old: str, new: str) -> None:
    package = import_module(f"hotlap.{part}")
    with pytest.warns(DeprecationWarning, match=f"hotlap.{part}.{new}"):
        assert getattr(package, old) is getattr(package, new)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_each_part_is_usable_alone() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    forbidden = {
        part: sorted(folders - {part, "common"} - NEEDS.get(part, set())) for part in PARTS
    }
    command = [sys.executable, "-c", ALONE, json.dumps(forbidden), ",".join(OPTIONAL)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
