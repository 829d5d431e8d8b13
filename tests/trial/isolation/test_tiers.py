"""Each tier on this machine, against what a trial may do to the files beside it."""

import tempfile
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.core.spec import Mode
from hotlap.trial.attend import attend
from hotlap.trial.isolation import tiers
from hotlap.trial.isolation.tiers import FORCED, Tier, isolation
from hotlap.trial.launch import Setting
from hotlap.trial.witness import changed, tree_hash

HARM = "echo more >> mine; rm -rf folder; mkdir folder; echo new > folder/new; cat folder/new mine"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("old\n")
    (tmp_path / "mine").write_text("mine\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(project: Path, command: str) -> tuple[int, str]:
    output = project / ".hotlap" / "log"
    output.parent.mkdir(exist_ok=True)
    setting = Setting(
        ("sh", "-c", command), Mode.RACE, scratch=project / ".hotlap" / "scratch", output=output
    )
    return attend(setting, lambda _: False), output.read_text()


def need(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, tier)
    tiers._chosen.cache_clear()
    try:
        isolation(Path.cwd() / ".hotlap" / "scratch")
    except UsageError as error:
        pytest.skip(str(error))


def test_an_overlay_takes_what_a_shell_does(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(Tier.OVERLAY, monkeypatch)
    before = tree_hash(project, [".hotlap"])
    code, said = run(project, HARM)
    assert (code, said) == (0, "new\nmine\nmore\n")
    assert changed(before, tree_hash(project, [".hotlap"])) == ()
    assert not list((project / ".hotlap" / "scratch").iterdir())


def test_layers_are_not_seen_inside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(Tier.OVERLAY, monkeypatch)
    code, said = run(project, "find .hotlap -name layers; ls .hotlap/scratch | wc -l")
    assert (code, said) == (0, "1\n")


def test_the_temporary_folder_is_shared(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(Tier.OVERLAY, monkeypatch)
    with tempfile.TemporaryDirectory() as folder:
        assert run(project, f"echo real > {folder}/file")[0] == 0
        assert Path(folder, "file").read_text() == "real\n"


def test_landlock_refuses_and_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(Tier.LANDLOCK, monkeypatch)
    before = tree_hash(project, [".hotlap"])
    code, said = run(project, HARM)
    assert "ermission denied" in said
    assert code
    assert changed(before, tree_hash(project, [".hotlap"])) == ()


def test_without_isolation_the_harm_is_real(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(Tier.OFF, monkeypatch)
    before = tree_hash(project, [".hotlap"])
    assert run(project, HARM)[0] == 0
    assert set(changed(before, tree_hash(project, [".hotlap"]))) == {
        "folder/new", "folder/old", "mine",
    }  # fmt: skip


def test_an_unknown_tier_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "bunker")
    with pytest.raises(UsageError, match="no such tier"):
        isolation(project)


def test_what_is_tried_leaves_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(Tier.OVERLAY, monkeypatch)
    assert [path.name for path in project.rglob("*") if "probe" in path.name] == []
    assert not list((project / ".hotlap" / "scratch").iterdir())
