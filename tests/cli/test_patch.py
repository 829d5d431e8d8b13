"""`hotlap patch`: the diff, --write, --check, --json, and which files are meant."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hotlap.cli.patch import patch
from hotlap.core.errors import UsageError

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

from parts import train_set


def main():
    loader = DataLoader(train_set, batch_size=64, shuffle=True)  # data
    print(len(loader))


if __name__ == "__main__":
    main()
"""
PARTS = """\
from torch.utils.data import DataLoader, TensorDataset

train_set = TensorDataset()
valid_loader = DataLoader(train_set, batch_size=64)
"""
RECIPE = """\
[measured]
command = "python train.py --lr 0.1"
script = "train.py"

[techniques.loader_workers]
num_workers = 2

[techniques.fragmentation]

[techniques.cpu_threads]
threads = 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "hotlap.toml").write_text(RECIPE)
    return tmp_path


def call(*words: str):
    return CliRunner().invoke(patch, list(words), prog_name="patch")


def test_the_diff_is_on_stdout_and_changes_nothing(folder: Path):
    done = call()
    assert done.exit_code == 0
    assert "shuffle=True, num_workers=2)  # data" in done.stdout
    assert "--- a/train.py" in done.stdout
    assert "--- a/parts.py" in done.stdout  # it is imported from here
    assert "export PYTORCH_ALLOC_CONF=expandable_segments:True" in done.stderr
    assert (folder / "train.py").read_text() == SCRIPT


def test_the_diff_can_be_applied(folder: Path):
    diff = call().stdout
    subprocess.run(["git", "apply", "-"], input=diff, text=True, check=True)
    patched = (folder / "train.py").read_text()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "parts.py").write_text(PARTS)
    assert call("--write").exit_code == 0
    assert (folder / "train.py").read_text() == patched


def test_write_changes_the_files_once(folder: Path):
    assert call("--check").exit_code == 1
    done = call("--write")
    assert done.exit_code == 0
    assert done.stdout == ""
    assert "changed train.py" in done.stderr
    once = (folder / "train.py").read_text()
    assert once.count("num_workers=2") == 1
    assert once.count("torch.set_num_threads(1)") == 1
    assert "set_num_threads" not in (folder / "parts.py").read_text()  # only where it starts
    assert call("--check").exit_code == 0
    assert call().stdout == ""
    assert (folder / "train.py").read_text() == once


def test_files_named_are_the_files_patched(folder: Path):
    done = call("parts.py")
    assert "a/parts.py" in done.stdout
    assert "a/train.py" not in done.stdout
    assert "a/parts.py" in call(str(folder / "parts.py")).stdout


def test_folders_are_taken_as_lint_takes_them(folder: Path):
    for name in ("models/deep", "models/venv/lib", "other"):
        (folder / name).mkdir(parents=True)
        (folder / name / "parts.py").write_text(PARTS)
    (folder / "models/venv/pyvenv.cfg").write_text("")
    done = call("train.py", "models/", str(folder / "models/deep"))
    files = [line[6:] for line in done.stdout.splitlines() if line.startswith("+++ b/")]
    assert files == ["train.py", "models/deep/parts.py"]
    assert "torch.set_num_threads(1)" in call(".").stdout  # the recipe's script is among them


def test_of_two_scripts_of_one_name_neither_is_taken_for_the_started_one(folder: Path):
    (folder / "other").mkdir()
    (folder / "other/train.py").write_text(SCRIPT)
    done = call(".")
    assert "set_num_threads" not in done.stdout
    assert "num_workers=2" in done.stdout


def test_files_of_another_program_are_warned_of(folder: Path):
    (folder / "other.py").write_text(SCRIPT.replace("parts", "others"))
    assert "measured with `python train.py --lr 0.1`" in call("other.py").stderr
    for own in (("train.py",), ("parts.py",), ("other.py", "parts.py"), (".",), ()):
        assert "measured with" not in call(*own).stderr


def test_another_recipe(folder: Path):
    (folder / "other.toml").write_text("[techniques.pinned_memory]\n")
    done = call("--recipe", "other.toml", "train.py")
    assert "pin_memory=True" in done.stdout
    assert "num_workers" not in done.stdout


def test_one_json_document(folder: Path):
    document = json.loads(call("--json").stdout)
    assert [file["path"] for file in document["files"]] == ["train.py", "parts.py"]
    assert document["techniques"]["loader_workers"] == "written"
    assert document["by_hand"][0]["technique"] == "fragmentation"
    assert document["written"] is False


def test_the_files_of_a_module_command(folder: Path):
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "data.py").write_text(PARTS)
    (package / "train.py").write_text("import torch\n\nfrom .data import valid_loader\n")
    recipe = RECIPE.replace("python train.py --lr 0.1", "torchrun -m package.train --lr 0.1")
    (folder / "hotlap.toml").write_text(recipe)
    done = call()
    assert "a/package/train.py" in done.stdout
    assert "a/package/data.py" in done.stdout
    assert "a/train.py" not in done.stdout


def test_the_script_of_a_shell_script(folder: Path):
    (folder / "run.sh").write_text('#!/bin/sh\n# python other.py\nexec python train.py  "$@"\n')
    (folder / "hotlap.toml").write_text(RECIPE.replace("python train.py", "bash run.sh"))
    assert "a/train.py" in call().stdout


def test_the_program_that_trained_is_patched_whatever_the_shell_script_starts_first(folder: Path):
    (folder / "make_data.py").write_text("import json\n")
    (folder / "run.sh").write_text("python make_data.py\ntorchrun -m train\n")
    recipe = RECIPE.replace("python train.py", "bash run.sh")
    (folder / "hotlap.toml").write_text(
        recipe.replace("[measured]\n", '[measured]\nprogram = "train.py"\n')
    )
    assert "a/train.py" in call().stdout


@pytest.mark.parametrize(
    ("words", "spoil", "message"),
    [
        (["--write", "--check"], {}, "exclude each other"),
        (["missing.py"], {}, "cannot read missing.py"),
        ([], {"train.py": "def broken(:\n"}, "train.py:1 is not Python"),
        ([], {"train.py": "# coding: none\n"}, "train.py is not Python"),
        ([], {"hotlap.toml": "[techniques.tf32]\n"}, "the recipe names no command"),
        ([], {"hotlap.toml": '[measured]\ncommand = "sh a.sh"\n[techniques.tf32]\n'},
         "no Python file below this folder is started by `sh a.sh`"),
        (["--recipe", "no.toml"], {}, "there is no recipe at no.toml"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_an_error_of_usage(folder: Path, words, spoil, message):
    for name, text in spoil.items():
        (folder / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(patch, words, catch_exceptions=False)


def test_a_file_that_is_read_only_stays_and_so_do_the_others(folder: Path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "parts.py")
    with pytest.raises(UsageError, match=r"cannot write parts\.py"):
        CliRunner().invoke(patch, ["--write"], catch_exceptions=False)
    assert (folder / "train.py").read_text() == SCRIPT
    assert sorted(p.name for p in folder.iterdir()) == ["hotlap.toml", "parts.py", "train.py"]


def test_help_needs_neither_torch_nor_libcst():
    program = (
        "import sys\nfrom hotlap.cli.patch import patch\n"
        "try:\n    patch(['--help'])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'libcst' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_no_torch_while_patching(folder: Path):
    program = (
        "import sys\nfrom hotlap.cli.patch import patch\n"
        "try:\n    patch([])\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, cwd=folder)
