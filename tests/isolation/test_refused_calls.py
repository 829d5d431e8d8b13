"""What Landlock refuses, what it lets through, and who is named for it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotlap.core.errors import TrialFailedError
from hotlap.core.spec import Mode, Tier
from hotlap.isolation import seccomp
from hotlap.isolation.refusals import refusal_hint
from hotlap.isolation.tree_diff import changed, tree_hash
from hotlap.profile.look import Bounds, look
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting
from light import light

pytestmark = pytest.mark.skipif(
    not seccomp.available(), reason="this kernel does not notify of system calls"
)

METADATA = {
    "chmod": "chmod 600 mine",
    "times": "touch -d @1 mine",
    "owner": f"chown {os.getuid()} mine",
    "folder": "chmod 700 folder",
    "descriptor": """{python} -c 'import ctypes, os; C = ctypes.CDLL(None)
fd = os.open("mine", os.O_RDONLY); assert C.fchmod(fd, 0o600) == -1'; false""",
    "attribute": """{python} -c 'import ctypes; C = ctypes.CDLL(None)
assert C.setxattr(b"mine", b"user.a", b"b", 1, 0) == -1'; false""",
    "flags": """{python} -c 'import fcntl
try: fcntl.ioctl(open("mine"), 0x40086602, bytes(8))
except PermissionError: raise SystemExit(1)'""",
    "link": "touch -h -d @1 link",
    "through a link": "ln -s $PWD/mine {temp}/to; chmod 600 {temp}/to",
    "by /proc": "exec 5< mine; chmod 600 /proc/self/fd/5",
}
ELSEWHERE = """
set -e
echo new > {temp}/own; ln -s $PWD/mine {temp}/to
chmod 600 {temp}/own; touch -d @1 {temp}/own; touch -h -d @1 {temp}/to; cp -a mine {temp}/copy
cd {temp}; chmod 640 own; touch copy; mv copy moved; mkdir made; test $(stat -c %a own) = 640
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: Callable[[Tier], None]) -> Path:
    for name in ("mine", "one"):
        (tmp_path / name).write_text("mine\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("mine")
    monkeypatch.chdir(tmp_path)
    force(Tier.LANDLOCK)
    return tmp_path


@pytest.fixture
def temp() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def shell(project: Path, command: str) -> tuple[int, Setting]:
    output = project / ".hotlap" / "log"
    output.parent.mkdir()
    setting = Setting(
        ("sh", "-c", command), Mode.RACE, scratch=output.parent / "scratch", output=output
    )
    return run_foreground(setting, lambda _: False), setting


@pytest.mark.parametrize("way", METADATA)
def test_modes_times_owners_and_attributes_stay(project: Path, temp: Path, way: str) -> None:
    before = tree_hash(project, [".hotlap"])
    command = METADATA[way].format(temp=temp, python=f"env -i {sys.executable} -S")
    code, setting = shell(project, command)
    assert code, setting.output
    assert changed(before, tree_hash(project, [".hotlap"])) == ()
    hint = refusal_hint(setting.output, setting.scratch)
    assert f"--writable {project} " in hint


def test_a_shell_wrapper_is_named(project: Path) -> None:
    (project / "folder" / "old").write_text("mine")
    code, setting = shell(project, "set -e; rm -rf folder; mkdir folder")
    assert code
    assert setting.output is not None
    said = setting.output.read_text()
    assert f"refused a write by `rm -rf folder` to {project / 'folder' / 'old'};" in said
    assert (project / "folder" / "old").read_text() == "mine"


def test_what_is_shared_is_changed_as_ever(project: Path, temp: Path) -> None:
    (project / "pre").mkdir()
    code, setting = shell(project, ELSEWHERE.format(temp=temp))
    assert setting.output is not None
    assert code == 0, setting.output.read_text()


def test_io_uring_is_not_offered(project: Path) -> None:
    ask = (
        "import ctypes, errno; C = ctypes.CDLL(None, use_errno=True); "
        f"assert C.syscall({seccomp.IO_URING_SETUP}, 4, ctypes.create_string_buffer(248)) == -1; "
        "assert ctypes.get_errno() == errno.ENOSYS"
    )
    code, setting = shell(project, f"env -i {sys.executable} -S -c '{ask}'")
    assert setting.output is not None
    assert code == 0, setting.output.read_text()


TRAIN = """
import torch
from tokenizers import Tokenizer, models
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{write}
for step in range(40):
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""
WRITES = {
    "rust": ('Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save("mine")', "train.py"),
    "shell": ('__import__("subprocess").run("set -e; echo x >> mine", shell=True, check=True)',
              "sh -c set -e; echo x >> mine"),
}  # fmt: skip


@pytest.mark.parametrize("write", ["rust", pytest.param("shell", marks=pytest.mark.slow)])
def test_a_training_that_was_refused_names_program_path_and_option(
    project: Path, write: str
) -> None:
    pytest.importorskip("tokenizers")
    code, program = WRITES[write]
    (project / "train.py").write_text(TRAIN.format(write=code))
    setting = Setting(
        (sys.executable, "train.py"), Mode.PROFILE, scratch=project / ".hotlap" / "scratch",
        output=project / "log",
    )  # fmt: skip
    with pytest.raises(TrialFailedError) as failed:
        look(setting, Bounds(steps=20, dataset=False))
    assert program in failed.value.hint
    assert f"to {project / 'mine'}; --writable {project} " in failed.value.hint
    assert (project / "mine").read_text() == "mine\n"


LATER = """
import subprocess
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(400):
    model(torch.ones(2, 4)).square().sum().backward()
    optimizer.step()
    if step == 40:
        subprocess.run("cp one mine", shell=True, check=True)
"""


@pytest.mark.parametrize(
    "verb",
    [
        "lr",
        pytest.param("profile --json --steps 200", marks=pytest.mark.slow),
        pytest.param("race {} train.py --", marks=pytest.mark.slow),
    ],
)
def test_verbs_say_it_where_the_program_failed_later(project: Path, verb: str) -> None:
    command = [sys.executable, "train.py"]
    (project / "train.py").write_text(light(LATER))
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", *verb.format(sys.executable).split(), *command],
        cwd=project, capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert done.returncode, done.stdout
    assert f"Landlock refused a write by `cp one mine` to {project / 'mine'};" in done.stderr
    assert (project / "mine").read_text() == "mine\n"
