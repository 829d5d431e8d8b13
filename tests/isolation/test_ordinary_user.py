"""An ordinary user's namespace, tried from root: the same layers by `user.` attributes."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from hotlap.isolation import namespace
from hotlap.isolation.layout import Layout

NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that an ordinary user reaches, with a copy of what enters the namespace."""
    found = Path(tempfile.mkdtemp(prefix="hotlap-user-"))
    found.chmod(0o755)
    for name in ("project", "layers", "shared"):
        (found / name).mkdir()
    (found / "project" / "mine").write_text("mine\n")
    shutil.copy(namespace.__file__, found / "namespace.py")
    for path in (found, *found.rglob("*")):
        shutil.chown(path, NOBODY, NOBODY)
    yield found
    shutil.rmtree(found)


@pytest.mark.skipif(
    os.geteuid() != 0 or not Path(SYSTEM_PYTHON).exists(), reason="takes root and a system Python"
)
def test_an_ordinary_user_gets_an_overlay(folder: Path) -> None:
    project = str(folder / "project")
    layout = Layout(
        overlays=(project,),
        shared={str(folder / "shared"): str(folder / "shared")},
        readonly={},
        needed=(project,),
        layers=str(folder / "layers"),
        privileged=False,
        files={f"{project}/seen/only.txt": "inside"},
    )
    plan = {"layout": asdict(layout), "probe": f"{project}/probe"}
    (folder / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run(
        [SYSTEM_PYTHON, "-I", "-S", folder / "namespace.py", folder / "plan.json"],
        user=NOBODY, group=NOBODY, extra_groups=[], cwd=project, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    if "unshare" in done.stderr:
        pytest.skip(f"user namespaces are refused: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in Path(project).iterdir()] == ["mine"]
    upper = next((folder / "layers").glob("*/upper"))
    assert (upper / "seen" / "only.txt").read_text() == "inside"
    assert [path.name for path in upper.iterdir() if "probe" in path.name]
