"""`hotlap kernel`: the verb, its verdict and its template."""

import json
import subprocess
import sys

import pytest
import torch

from hotlap.kernel_check import verdict

CRASHES = """
import ctypes
import torch

def reference(x):
    return x * 2

def kernel(x):
    ctypes.string_at(x.data_ptr(), x.nbytes + (1 << 16))
    return x * 2

DIFFERENTIABLE = False
"""


def hotlap(*words):
    command = [sys.executable, "-m", "hotlap", "kernel", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_new_operator_passes_the_check_and_is_raced(tmp_path):
    assert hotlap("new", "mine", "--in", tmp_path).returncode == 0
    file = tmp_path / "mine" / "mine.py"
    done = hotlap("check", file, "--race", "eager", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 0, document["outcomes"]
    assert document["passed"] and document["advice"]
    assert {row["direction"] for row in document["race"]} == {"forward", "forward and backward"}
    assert all(row["share_of_copy_bandwidth"] > 0 for row in document["race"])
    again = hotlap("new", "mine", "--in", tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr
    (file.parent / "mine.c").write_text((file.parent / "mine.c").read_text().replace("1.0", "1.1"))
    done = hotlap("check", file, "--race", "none")
    assert done.returncode == 1
    assert "rejected: values" in done.stdout


def test_a_crash_is_a_verdict(tmp_path):
    (tmp_path / "crashes.py").write_text(CRASHES)
    done = hotlap("check", tmp_path / "crashes.py", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1
    (outcome,) = document["outcomes"]
    assert outcome["check"] == "memory bounds" and "SIGSEGV" in outcome["detail"]


@pytest.mark.parametrize(
    ("words", "says"),
    [(("check", "nothing.py"), "no file nothing.py"), (("new", "a-b"), "cannot be the name")],
)
def test_bad_input_is_said(words, says, tmp_path):
    done = hotlap(*words)
    assert done.returncode == 2
    assert says in done.stderr


TRITON = """
import torch, triton, triton.language as tl
DTYPES, DIFFERENTIABLE = (torch.float32,), False

def reference(x):
    return x * x + 1

@triton.jit
def _kernel(x_at, y_at, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_at + at, at < count)
    tl.store(y_at + at, x * x + ADDED, at < count)

def kernel(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        _kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton compiles for the GPU")
@pytest.mark.parametrize(
    ("added", "code"), [("1", 0), pytest.param("2", 1, marks=pytest.mark.slow)]
)
def test_triton_is_interpreted_where_there_is_no_gpu(added, code, tmp_path):
    pytest.importorskip("triton")
    (tmp_path / "square.py").write_text(TRITON.replace("ADDED", added))
    done = hotlap("check", tmp_path / "square.py")
    assert done.returncode == code, done.stdout
    assert "Triton interpreted the kernel on the CPU" in done.stdout
    assert ("rejected: values" in done.stdout) == (code == 1)


@pytest.mark.parametrize(
    ("body", "says", "not_says"),
    [
        ("import time; time.sleep(60)", "was killed: it said nothing", "outside"),
        ("raise SystemExit(0)", "ended with exit code 0", "outside"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV: it reads or writes outside", "killed"),
    ],
)
def test_how_a_check_ended_that_gave_no_verdict(body, says, not_says, tmp_path, monkeypatch):
    """The child begins the check of memory bounds, and then does this."""
    begin = "import pathlib, sys; out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\n"
    begin += 'out.write_text(\'{"begun": "memory bounds"}\\n\')\n'
    (tmp_path / "stand_in.py").write_text(begin + body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(verdict, "CHILD", "stand_in")
    monkeypatch.setattr(verdict, "PATIENCE", 2.0)
    (outcome,) = verdict.check("operator.py", "none").outcomes
    assert says in outcome["detail"]
    assert not_says not in outcome["detail"]
