"""The command line: light, helpful, and exact about exit codes."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotlap import __version__
from hotlap.cli import main
from hotlap.cli.common import USAGE
from hotlap.cli.main import VERBS, hotlap
from hotlap.core.registry import FOLDER
from hotlap.trial.command import normalise
from hotlap.tune.result import MEANINGS, NOT_CONFIRMED, Status

MLP = Path(__file__).parent.parent / "scripts" / "mlp.py"


def call(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hotlap", *words],
        cwd=cwd,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("words", [["--help"], ["tune", "--help"], ["explain"]])
def test_help_does_not_import_torch(words: list[str]) -> None:
    program = (
        "import sys\nfrom hotlap.cli.main import hotlap\n"
        f"try:\n    hotlap({words!r})\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_every_verb_has_help_and_a_line_in_the_list() -> None:
    listing = CliRunner().invoke(hotlap, ["--help"]).output
    for verb in VERBS:
        assert verb in listing
        assert CliRunner().invoke(hotlap, [verb, "--help"]).exit_code == 0


def test_version() -> None:
    assert __version__ in CliRunner().invoke(hotlap, ["--version"]).output


def test_a_script_without_a_verb_gets_a_hint() -> None:
    result = CliRunner().invoke(hotlap, ["train.py"])
    assert result.exit_code == 2
    assert "hotlap profile train.py" in result.output
    swapped = CliRunner().invoke(hotlap, ["python", "tune", "train.py"])
    assert "hotlap tune python train.py" in swapped.output


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["tune"], 2, "no command was given"),
        (["run", "python", "train.py"], 2, "there is no recipe"),
        (["profile", "no-such-program"], 2, "no such command"),
        (["profile", "nothing.py"], 2, "nothing.py: no such file"),
        (["launch", "nothing.py"], 2, "nothing.py: no such file"),
        (["launch", "python", "-m", "x"], 2, "leave it out: hotlap launch -m x"),
        (["launch", "/opt/bin/torchrun", "t.py"], 2, "leave it out: hotlap launch t.py"),
        (["race", "python", "a.py"], 2, "two commands are needed"),
        (["race", "a", "--", "b", "--", "c"], 2, "more than one `--`"),
        (["tune", "--only", "loader_worker", "python"], 2, "did you mean loader_workers"),
        (["tune", "--allow", "wild", "python"], 2, "none of exact"),
        (["tune", "--budget", "soon", "python"], 2, "no time span"),
        (["tune", "--budget", "-5s", "python"], 2, "no time span"),
        (["tune", "--budget", "nan", "python"], 2, "no time span"),
        (["tune", "--budget", "19s", "python"], 2, "too short"),
        (["race", "--budget", "soon", "a", "--", "b"], 2, "no time span"),
        (["prfile", "python"], 2, "did you mean 'profile'"),
        (["explain", "fused"], 2, "there is no technique"),
        (["explain", "evaluation_oftn"], 2, "did you mean evaluation_often?"),
        (["profile", "-n", "5", "python", "train.py"], 2, "come before the command\n"),
        (["profile", "true"], 3, "no Python process with torch was seen"),
        (["profile", "python", "trian.py"], 2, "did you mean train.py"),
        (["profile", "bash", "train.sh"], 2, "train.sh: no such file"),
        (["profile", "pyhton", "train.py"], 2, "did you mean python"),
        (["profile", "/opt/conda/envs/x/bin/python", "train.py"], 2, "no such file"),
        (["profile", "./shell.sh"], 2, "bash ./shell.sh"),
        (["profile", "."], 2, ". is a folder"),
        (["profile", "CUDA_VISIBLE_DEVICES=0", "python", "train.py"], 2, "before hotlap"),
        (["profile", "cd", "src"], 2, "a command of the shell itself"),
        (["profile", "deepspeed", "train.py"], 2, "is it installed"),
        (["tune", '"python train.py'], 2, "a quote is not closed"),
        (["tune", "tune", "train.py"], 2, "given twice"),
        (["tune", "--budget", "5", "python", "train.py"], 2, "or minutes: 5m"),
        (["tune", "--recipe", ".", "python", "train.py"], 2, "is a directory"),
        (["tune", "--recipe", "no/hotlap.toml", "python", "train.py"], 2, "there is no folder no"),
        (["race", "--max-slowdown", "5%", "python", "--", "python"], 2, "not a valid number"),
        (["launch", "trian.py"], 2, "did you mean train.py"),
        (["help"], 2, "`hotlap --help` lists them"),
    ],
)
def test_what_went_wrong_is_said_in_a_line(
    words: list[str], code: int, message: str, tmp_path: Path,
    typed: Callable[..., subprocess.CompletedProcess[str]],
) -> None:  # fmt: skip
    (tmp_path / "train.py").write_text("")
    (tmp_path / "shell.sh").write_text("python train.py\n")
    done = typed(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "\nhotlap: " in f"\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_an_option_after_the_command_is_asked_about_when_the_program_fails(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    done = call("lr", sys.executable, "train.py", "--steps", "9", cwd=tmp_path)
    assert done.returncode == 4
    assert "unrecognized arguments: --steps 9" in done.stderr
    assert "Its options come before the command: hotlap lr --steps ... CMD" in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("torch.nn.utils.clip_grad_norm_ = print\n", True),
        ("import sys\nprint(sys.argv)\n", False),
        ("from lightning.pytorch.cli import LightningCLI\n", False),
    ],
)
def test_an_option_behind_a_script_that_reads_none_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(text)
    done = CliRunner().invoke(hotlap, ["profile", "python", "train.py", "--steps", "5"])
    assert ("--steps goes to the script, which reads no options" in done.stderr) is told


def test_a_module_is_run_by_python() -> None:
    done = CliRunner().invoke(hotlap, ["profile", "-m", "package.train"])
    assert "Did you mean `python -m`?" in done.output


def test_an_exception_of_the_program_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import json\n\njson.loads('{')\n")
    done = call("lr", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 4
    assert re.search(r"JSONDecodeError: .* \(train.py:3\)\n", done.stderr), done.stderr


def test_run_applies_the_recipe_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").write_text("[techniques.fused_optimizer]\n")
    done = call("run", sys.executable, str(MLP), "--steps", "5", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "hotlap: fused_optimizer on\n"
    assert done.stdout.startswith("done after 5 steps")


@pytest.mark.slow
def test_run_says_what_did_not_take_hold(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").write_text("[techniques.grads_to_none]\n")
    done = call("run", "-q", sys.executable, str(MLP), "--steps", "5", cwd=tmp_path)
    assert done.returncode == 0
    assert "grads_to_none did not take hold" in done.stderr
    done = call("run", "-q", sys.executable, "-I", str(MLP), "--steps", "5", cwd=tmp_path)
    assert "the recipe was not applied" in done.stderr


EPOCHS = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(torch.randn(32, 2))
for epoch in range(int(sys.argv[1])):
    for (x,) in DataLoader(data, 4, num_workers=1):
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_run_says_what_the_run_was_too_short_for(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EPOCHS)
    names = ("loader_reuse", "async_checkpoint", "no_grad_eval")
    recipe = "".join(f"[techniques.{name}]\n" for name in names)
    (tmp_path / "hotlap.toml").write_text(recipe)
    said = call("run", "-q", sys.executable, "train.py", "1", cwd=tmp_path).stderr
    ended = "did not take hold: the run ended before"
    assert f"loader_reuse {ended} a second epoch began" in said
    assert f"async_checkpoint {ended} it saved a file" in said
    assert f"no_grad_eval {ended} an evaluation ran" in said
    assert "the source may have it" not in said
    said = call("run", "-q", sys.executable, "train.py", "2", cwd=tmp_path).stderr
    assert "loader_reuse" not in said


RANDOM = """
import torch
from torch.utils.data import DataLoader

class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return (torch.randn(4) if index >= 32 else torch.ones(4)), index % 2

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(Noise(), 8):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_run_says_what_was_given_up_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "hotlap.toml").write_text("[techniques.cached_dataset]\n")
    (tmp_path / "train.py").write_text(RANDOM)
    done = call("run", "-q", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 0
    words = "cached_dataset did not hold throughout: reading a sample draws random numbers"
    assert words in done.stderr


@pytest.mark.parametrize(("end", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", -15)])
def test_run_ends_as_the_program_ends(tmp_path: Path, end: str, code: int) -> None:
    (tmp_path / "hotlap.toml").write_text("")
    done = call("run", sys.executable, "-c", f"import os, sys; {end}", cwd=tmp_path)
    assert done.returncode == code


def test_race_decides_by_exit_code(tmp_path: Path) -> None:
    fast = [sys.executable, str(MLP), "--light"]
    slow = [*fast, "--sleep", "0.01"]
    found = call("race", "--json", "--max-slowdown", "1.05", *fast, "--", *slow, cwd=tmp_path)
    assert found.returncode == 1, found.stderr
    document = json.loads(found.stdout)
    assert document["estimate"]["high"] < 1 / 1.05
    assert {path.name for path in tmp_path.iterdir()} == {".hotlap"}


@pytest.fixture
def more(tmp_path: Path) -> dict[str, str]:
    """A folder with a technique of one's own."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "my_fused.py").write_text((FOLDER / "fused_optimizer.py").read_text())
    return {"HOTLAP_TECHNIQUES": str(tmp_path / "more")}


def test_a_technique_of_ones_own_is_explained(tmp_path: Path, more: dict[str, str]) -> None:
    assert "my_fused" in call("explain", cwd=tmp_path, **more).stdout
    assert "Why it is faster" in call("explain", "my_fused", cwd=tmp_path, **more).stdout


@pytest.mark.slow
def test_a_technique_of_ones_own_is_raced(tmp_path: Path, more: dict[str, str]) -> None:
    tune = ["tune", "--json", "--budget", "90s", "--only", "my_fused", sys.executable, str(MLP)]
    done = call(*tune, cwd=tmp_path, **more)
    rows = {row["technique"]: row for row in json.loads(done.stdout)["outcomes"]}
    assert rows["my_fused"]["race"] is not None, rows["my_fused"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("no_sync", "ddp_no_sync"), ("find_unused_parameters", "ddp_unused_search"),
        ("pin_memory", "pinned_memory"), ("torch.compile", "fused_pointwise"),
        ("autocast", "mixed_precision"), ("set_to_none", "grads_to_none"),
    ],
)  # fmt: skip
def test_explain_takes_torchs_own_name_of_what_a_technique_sets(word: str, meant: str) -> None:
    assert CliRunner().invoke(hotlap, ["explain", word]).output.startswith(f"{meant}:")


def test_explain_takes_the_id_of_a_lint_pattern():
    done = CliRunner().invoke(hotlap, ["explain", "graph_kept"])
    assert done.exit_code == 0
    assert done.output.startswith("retained_graph")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["load-dependent"], "load-dependent: It was faster while other programs used the cores"),
        (["broke", "parity"], "broke parity: The losses or outputs differ"),
        (["not_faster"], "not faster: The interval excludes"),
    ],
)
def test_explain_says_what_a_verdict_means(words: list[str], says: str) -> None:
    assert CliRunner().invoke(hotlap, ["explain", *words]).output.startswith(says)
    found = json.loads(CliRunner().invoke(hotlap, ["explain", "--json", *words]).output)
    assert says.startswith(f"{found['verdict']}: {found['meaning'][:10]}")


@pytest.mark.parametrize(
    "name",
    [
        "blocking_call", "python_in_step", "environment_step", "unused_rows", "straggler",
        "worker_memory", "old_amp", "storage",
    ],
)  # fmt: skip
def test_explain_says_what_to_do_about_a_finding_of_no_technique(name: str) -> None:
    done = CliRunner().invoke(hotlap, ["explain", name])
    assert (done.exit_code, done.output.startswith(f"{name}: ")) == (0, True)
    found = json.loads(CliRunner().invoke(hotlap, ["explain", "--json", name]).output)
    assert found["finding"] == name
    assert len(found["meaning"]) > 20


def test_every_verdict_has_a_meaning() -> None:
    assert set(MEANINGS) == {*Status, NOT_CONFIRMED}


def test_a_script_whose_name_has_a_blank_is_no_line_of_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my train.py").touch()
    assert normalise(["my train.py"]) == (sys.executable, "my train.py")
    assert normalise([f"{sys.executable} -c pass"]) == (sys.executable, "-c", "pass")


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (OSError(errno.EACCES, "Permission denied", ".hotlap/lock"), ".hotlap/lock: Permission"),
        (OSError(errno.ENOSPC, "No space left on device"), "hotlap: No space left on device"),
    ],
)
def test_what_the_disk_refuses_hotlap_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refused: OSError, said: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise refused

    monkeypatch.setattr(main.hotlap, "main", refuse)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == USAGE
    told = capsys.readouterr().err
    assert said in told
    assert ("another user" in told) is (".hotlap" in said)


def test_any_other_failure_of_the_system_is_a_fault_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    monkeypatch.setattr(main.hotlap, "main", fail)
    with pytest.raises(ProcessLookupError):
        main.main()
