"""A training process is reached whatever its environment, or the trial ends with the reason."""

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

from hotlap.core.errors import NotReachedError
from hotlap.core.spec import Mode, Tier
from hotlap.isolation.reach_files import NAME, reach_files, sites
from hotlap.profile.look import Bounds, look
from hotlap.trial.launch import BOOT, Setting
from hotlap.trial.reach import UnreachedCheck

SITE = sysconfig.get_path("purelib")
TRAIN = """
import sys, time
sys.path.append({site!r})
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
open("last.pt", "w").write("a trial's")
for _ in range({steps}):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
time.sleep({rest})
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: Callable[[Tier], None]) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "last.pt").write_text("mine")
    force(Tier.OVERLAY)
    return tmp_path


def profile(project: Path, command: str, rest: int = 0) -> int:
    (project / "train.py").write_text(TRAIN.format(site=SITE, steps=400, rest=rest))
    setting = Setting(
        ("sh", "-c", command), Mode.PROFILE, scratch=project / ".hotlap" / "scratch",
        output=project / "log",
    )  # fmt: skip
    return look(setting, Bounds(steps=20, dataset=False)).payload.steps


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("env -i {python} train.py", marks=pytest.mark.slow),  # and see below
        pytest.param("PYTHONPATH=/nowhere {python} train.py", marks=pytest.mark.slow),
        pytest.param("{python} -I train.py", marks=pytest.mark.slow),
        "{python} -c 'import subprocess, sys;"
        ' subprocess.run([sys.executable, "train.py"], env={{}}, check=True)\'',
    ],
)
def test_cleared_environments_are_reached(project: Path, command: str) -> None:
    assert profile(project, command.format(python=sys.executable)) > 0
    assert (project / "last.pt").read_text() == "mine"


def test_a_python_in_a_shared_folder_is_reached(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = project / "caches" / "venv"
    monkeypatch.setenv("XDG_CACHE_HOME", str(environment.parent))
    venv.create(environment)
    python = environment / "bin" / "python"
    assert profile(project, f"env -i {python} train.py") > 0
    assert not list(environment.rglob(NAME))
    assert (project / "last.pt").read_text() == "mine"


def test_a_process_out_of_reach_ends_the_trial(project: Path) -> None:
    with pytest.raises(NotReachedError, match="trains without hotlap"):
        profile(project, f"{sys.executable} -S train.py", rest=60)
    assert (project / "last.pt").read_text() == "mine"


class Unreached(UnreachedCheck):
    """Finds these processes in its looks, one after another."""

    def __init__(self, *looks: set[int]) -> None:
        super().__init__(os.getpid(), Path("/nowhere"))
        self.looks = list(looks)

    def look(self) -> None:
        self._next = 0.0
        self.now = self.looks.pop(0)
        super().look()

    def _is_unreached(self, process: psutil.Process) -> bool:
        return process.pid in self.now


def test_a_process_is_out_of_reach_if_two_looks_in_a_row_find_it_so() -> None:
    """One that was just forked has not left its file yet."""
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            passing = Unreached({child.pid}, set(), {child.pid}, set())
            for _ in range(4):
                passing.look()
            staying = Unreached({child.pid}, {child.pid})
            staying.look()
            with pytest.raises(NotReachedError, match="trains without hotlap"):
                staying.look()
        finally:
            child.kill()


def test_where_the_folder_is_gone_no_process_is_called_unreached(tmp_path: Path) -> None:
    look = UnreachedCheck(os.getpid(), tmp_path / "reached")
    me = psutil.Process()
    assert torch.__version__, "it is loaded"
    assert not look._is_unreached(me)
    (tmp_path / "reached").mkdir()
    assert look._is_unreached(me)


def test_the_file_names_what_the_environment_would() -> None:
    env = {"HOTLAP_SPEC": "/x/spec.json", "PYTHONPATH": "/boot", "HOME": "/home/ann"}
    files = reach_files((sys.executable,), BOOT, env, {"HOME": "/home/ann"})
    text = files[str(Path(SITE).resolve() / NAME)]
    assert "/x/spec.json" in text
    assert str(BOOT) in text
    assert "/home/ann" not in text
    assert text.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_folders_that_may_not_be_read_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "private" / "bin").mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}/private/bin:{os.environ['PATH']}")
    os.seteuid(65534)
    try:
        assert Path(SITE).resolve() in sites((sys.executable,)) or not os.access(SITE, os.R_OK)
    finally:
        os.seteuid(0)
