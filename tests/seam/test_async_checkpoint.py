"""`async_checkpoint`: the same bytes, and no look at a file before it is whole."""

import glob
import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hotlap.common.processes import children
from hotlap.seam import async_checkpoint as seam
from hotlap.seam.checkpoint_copies import SAVES, Buffers

HERE = Path(__file__).parent
SLOW_SECONDS = 1.0


def state(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(40, 40), nn.BatchNorm1d(40))
    model[0].tied = model[0].weight
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(8, 40)).sum().backward()
    optimizer.step()
    whole = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    return whole | {"view": model[0].weight.detach()[:2], "args": [1, "two"]}


@pytest.fixture
def slow(monkeypatch):
    """Writing takes long enough to be seen half done."""
    write = seam._Save.write

    def late(self):
        time.sleep(SLOW_SECONDS)
        write(self)

    monkeypatch.setattr(seam._Save, "write", late)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the test runs; processes that other tests have left are not its own."""
    monkeypatch.chdir(tmp_path)
    left = set(children(os.getpid()))
    monkeypatch.setattr(seam, "children", lambda pid: set(children(pid)) - left)
    return tmp_path


def saved(path, *args, **kwargs):
    torch.save(state(), path, *args, **kwargs)
    return Path(path).read_bytes()


@pytest.mark.parametrize("name", ["last.pt", "checkpoint", "a.b.ckpt", "größe.pt"])
def test_the_file_is_the_same_byte_for_byte(name, folder):
    plain = saved(name)
    os.unlink(name)
    with on("async_checkpoint") as seams:
        assert saved(name) == plain
        assert saved(Path(name)) == plain  # over the first
    assert seams.holds["async_checkpoint"] == [name]
    assert os.listdir() == [name]


def test_what_is_saved_is_what_was_at_the_call(folder, slow):
    weight = torch.arange(10.0)
    with on("async_checkpoint"):
        torch.save({"weight": weight}, "last.pt")
        weight.zero_()
        assert torch.load("last.pt")["weight"].tolist() == list(range(10))


LOOKS = {
    "open": lambda: Path("new.pt").read_bytes(),
    "load": lambda: torch.load("new.pt", weights_only=False),
    "mmap": lambda: torch.load("new.pt", mmap=True, weights_only=False),
    "exists": lambda: None if os.path.exists("new.pt") else pytest.fail("not there"),
    "size": lambda: os.path.getsize("new.pt"),
    "path": lambda: Path("new.pt").stat(),
    "list": lambda: "new.pt" in os.listdir() or pytest.fail("not there"),
    "glob": lambda: glob.glob("*.pt") or pytest.fail("not there"),
    "iterdir": lambda: list(Path().iterdir()),
    "rename": lambda: os.replace("new.pt", "best.pt"),
    "copy": lambda: shutil.copy("new.pt", "copy.pt"),
    "remove": lambda: os.remove("new.pt"),
    "link": lambda: os.symlink("new.pt", "latest.pt"),
    "folder": lambda: os.rename(os.getcwd(), os.getcwd() + "-done"),
    "program": lambda: subprocess.run(["cat", "new.pt"], check=True, capture_output=True),
    "system": lambda: os.system("test -s new.pt") and pytest.fail("not there"),
    "append": lambda: open("new.pt", "ab").close(),
}


def test_copies_use_the_memory_of_earlier_saves_again(folder):
    buffers, given = Buffers(), [torch.randn(n).untyped_storage() for n in (5, 5, 7)]
    first = [buffers.copy(storage) for storage in given]
    assert len({storage.data_ptr() for storage in first}) == 3
    buffers.give_back([("", storage, 0) for storage in first])
    again = [buffers.copy(storage) for storage in given]
    assert {s.data_ptr() for s in again} == {s.data_ptr() for s in first}
    assert [s.tolist() for s in again] == [s.tolist() for s in given]
    for _ in range(SAVES + 1):  # saves of another kind: the memory of the first ones goes
        buffers.give_back([("", given[2].clone(), 0), ("", b"name", 4)])
    assert sum(map(len, buffers._free.values())) == SAVES


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_it_is_whole_before_the_program_looks(look, folder, slow):
    with on("async_checkpoint"):
        begin = time.monotonic()
        torch.save(state(), "new.pt")
        assert time.monotonic() - begin < SLOW_SECONDS
        look()
        assert time.monotonic() - begin >= SLOW_SECONDS


def test_a_link_that_leads_to_it_is_a_look(folder, slow):
    Path("new.pt").write_bytes(b"old")
    os.symlink("new.pt", "latest.pt")
    with on("async_checkpoint"):
        torch.save([1], "new.pt")
        assert torch.load("latest.pt") == [1]
        torch.save([2], "latest.pt")
        assert torch.load("new.pt") == [2]
    assert os.path.islink("latest.pt")


def test_other_files_are_no_looks(folder, slow):
    Path("other.pt").write_bytes(b"")
    os.mkdir("sub")
    with on("async_checkpoint"):
        begin = time.monotonic()
        torch.save(state(), "new.pt")
        Path("other.pt").read_bytes()
        os.path.exists("other.pt")
        os.makedirs("sub", exist_ok=True)
        os.listdir("sub")
        os.remove("other.pt")
        assert time.monotonic() - begin < SLOW_SECONDS


def test_a_fork_waits_for_its_parents_file(folder, slow):
    with on("async_checkpoint"):
        torch.save(state(), "new.pt")
        child = os.fork()
        if not child:
            whole = torch.load("new.pt", weights_only=False)["epoch"] == 3
            os._exit(0 if whole else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_saves_in_a_row_and_loader_workers(folder, slow):
    data = DataLoader(TensorDataset(torch.arange(8)), num_workers=1)
    with on("async_checkpoint") as seams:
        for number in range(6):
            list(data)
            torch.save(number, f"{number}.pt")
            torch.save(number, "last.pt")
        assert [torch.load(f"{number}.pt") for number in range(6)] == list(range(6))
        assert torch.load("last.pt") == 5
    assert not seams.inerts


@pytest.mark.parametrize("what", ["object", "legacy", "missing folder", "hard link", "device"])
def test_what_is_saved_as_before(what, folder, slow):
    with on("async_checkpoint") as seams:
        if what == "object":
            buffer = io.BytesIO()
            torch.save([1], buffer)
            buffer.seek(0)
            assert torch.load(buffer) == [1]
        elif what == "legacy":
            torch.save([1], "a.pt", _use_new_zipfile_serialization=False)
            assert torch.load("a.pt") == [1]
        elif what == "missing folder":
            with pytest.raises(RuntimeError, match="does not exist"):
                torch.save([1], "none/a.pt")
        elif what == "hard link":
            Path("a.pt").write_bytes(b"")
            os.link("a.pt", "b.pt")
            torch.save([1], "a.pt")
            assert torch.load("b.pt") == [1]
        else:
            torch.save([1], os.devnull)
    assert not seams.holds


def test_an_error_of_the_program_is_raised_at_the_call(folder):
    with on("async_checkpoint"), pytest.raises(Exception, match="lambda"):
        torch.save(lambda: 1, "a.pt")


def test_a_write_that_fails_is_tried_in_place_then_raised(folder, monkeypatch):
    def full(self, archive):
        raise OSError(28, "No space left on device")

    with on("async_checkpoint"):
        monkeypatch.setattr(seam._Save, "_fill", full)
        with pytest.raises(OSError, match="No space left"):
            torch.save([1], "a.pt")  # raises by itself where the thread was quick
            torch.load("a.pt")
    assert not [name for name in os.listdir() if name.startswith(".saving")]


def test_permissions_stay(folder):
    Path("a.pt").write_bytes(b"")
    os.chmod("a.pt", 0o640)
    with on("async_checkpoint"):
        torch.save([1], "a.pt")
    assert os.stat("a.pt").st_mode & 0o777 == 0o640


PROGRAM = """
import os, signal, sys, time
sys.path[:0] = [{here!r}]
import torch
from applying import on
from hotlap.seam import async_checkpoint as seam
from hotlap.seam.checkpoint_copies import SAVES, Buffers
from hotlap.common.processes import children
torch.save([0], "last.pt")
write = seam._Save._fill
def slow(self, archive):
    print("writing", flush=True)
    time.sleep(0.5)
    write(self, archive)
seam._Save._fill = slow
seams = on("async_checkpoint")
seams.__enter__()
torch.save([1], "last.pt")
{end}
"""
ENDS = {
    "return": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "exception": ("raise KeyError", 1),
    "os._exit": ("os._exit(4)", 4),
    "exec": ("os.execv('/bin/true', ['true'])", 0),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", -signal.SIGTERM),
    "SIGUSR1": ("os.kill(os.getpid(), signal.SIGUSR1); time.sleep(9)", -signal.SIGUSR1),
}
QUICK = {"return", "os._exit", "SIGTERM"}
"""The ends of each commit; the others run with the slow tests."""


def program(folder, end):
    text = textwrap.dedent(PROGRAM).format(here=str(HERE), end=end)
    return subprocess.Popen([sys.executable, "-c", text], cwd=folder, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(*case, id=name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name, case in ENDS.items()
    ],
)
def test_it_is_whole_before_the_program_ends(end, code, folder):
    assert program(folder, end).wait() == code
    assert torch.load("last.pt") == [1]
    assert os.listdir() == ["last.pt"]


def test_kill_9_during_a_save_leaves_the_last_whole_file(folder):
    running = program(folder, "time.sleep(9)")
    assert running.stdout.readline() == b"writing\n"
    running.kill()
    running.wait()
    assert torch.load("last.pt") == [0]
    with on("async_checkpoint"):
        torch.save([2], "last.pt")
    assert os.listdir() == ["last.pt"]
