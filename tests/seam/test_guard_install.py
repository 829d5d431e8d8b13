# ruff: noqa: PTH208, SIM115
import builtins
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from guarding import fill, make_bench

from hotlap.isolation.tree_diff import changed, tree_hash
from hotlap.seam.guard import Guard, install, tracker_environment


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    fill(folder)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def guard(project: Path, tmp_path: Path) -> Iterator[Guard]:
    with install(tmp_path / "scratch", cover=[project]) as installed:
        yield installed


def test_undo_puts_every_function_back(project: Path, tmp_path: Path) -> None:
    def state() -> list[object]:
        return [builtins.open, io.open, *(getattr(os, name) for name in dir(os)), vars(shutil)]

    before = state()
    with install(tmp_path / "scratch", cover=[project]):
        assert state() != before
        assert os.mkdir in os.supports_follow_symlinks or os.stat in os.supports_follow_symlinks
    assert state() == before
    Path("written").write_text("for real")
    assert (project / "written").read_text() == "for real"


def test_the_mirror_holds_what_was_written(guard: Guard, project: Path) -> None:
    Path("log.txt").write_text("new")
    assert Path("log.txt").read_text() == "new"
    assert Path(f"{guard.overlay.mirror}{project}/log.txt").stat().st_size == 3
    guard.undo()
    assert Path("log.txt").read_text() == "old line\n"


def test_kept_roots_are_written_for_real(project: Path, tmp_path: Path) -> None:
    kept = project / "kept"
    kept.mkdir()
    with install(tmp_path / "scratch", keep=[kept], cover=[project]):
        Path("kept/real").write_text("r")
        Path("made").write_text("m")
        Path("made").rename("kept/moved")
        Path("kept/real").rename("taken")
    assert sorted(os.listdir("kept")) == ["moved"]
    assert not Path("taken").exists()


def test_another_process_is_seen_at_once(guard: Guard, tmp_path: Path) -> None:
    bench_boot = tmp_path / "boot"
    bench_boot.mkdir()
    assert Path("data/a/1.txt").exists()
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2] / 'src')!r})\n"
        "import os, shutil\nfrom hotlap.seam.guard import install\n"
        f"install({str(tmp_path / 'scratch')!r}, cover=[os.getcwd()])\n"
        "shutil.rmtree('data'); os.makedirs('fresh'); open('fresh/x', 'w').write('x')"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert not Path("data/a/1.txt").exists()
    assert Path("fresh/x").read_text() == "x"
    assert sorted(os.listdir("fresh")) == ["x"]


def test_a_program_that_is_not_python_is_named_by_the_parent(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    before = tree_hash(bench.project)
    bench.run("import os; os.system('echo x > shell.txt')", guarded=True)
    assert changed(before, tree_hash(bench.project)) == ("shell.txt",)


def test_exit_is_quiet(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    script = (
        "class Late:\n    def __del__(self): open('late', 'a').write('x')\n"
        "import sys; sys.late = Late(); late = Late(); f = open('left-open', 'w'); f.write('y')"
    )
    code, out, err = bench.run(script, guarded=True)
    bare = bench.run(script, guarded=False)
    assert (code, out) == (0, "")
    assert err.count("Error") <= bare[2].count("Error")


def test_a_failing_write_names_the_scripts_path(guard: Guard) -> None:
    with pytest.raises(FileNotFoundError, match=r"'no/such/file'$"):
        open("no/such/file", "w")
    with pytest.raises(IsADirectoryError):
        open("data", "w")


def test_huge_memmap_is_not_copied(guard: Guard, project: Path) -> None:
    numpy = pytest.importorskip("numpy")
    import _io

    with _io.open("huge", "wb") as file:
        file.truncate((64 << 20) + 8)
    mapped = numpy.memmap("huge")
    mapped[0] = 1
    assert mapped[0] == 1
    assert not Path(f"{guard.overlay.mirror}{project}/huge").exists()


def test_trackers_stay_below_the_scratch() -> None:
    environment = tracker_environment("/scratch")
    assert environment["WANDB_MODE"] == "disabled"
    assert environment["MLFLOW_TRACKING_URI"].startswith("file:///scratch")
