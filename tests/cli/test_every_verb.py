"""What holds for every verb: `--quiet` is quiet, `--json` prints one document, errors are errors.

The verbs are walked: one that is added has to say here how it is called.
"""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.cli.common import FAILED, NEGATIVE, NOT_REACHED, SCHEMA_VERSION, USAGE
from light import light
from verbs import Words, commands, option_names

TRAIN = """
import torch

torch.set_num_threads(1)
torch.manual_seed(0)
data = torch.utils.data.TensorDataset(torch.randn(256, 16), torch.randint(0, 2, (256,)))
model = torch.nn.Linear(16, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(1_000_000):
    for x, y in torch.utils.data.DataLoader(data, batch_size=16):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
SHORT = TRAIN.replace("1_000_000", "3") + "print('the program')\n"
MODEL = """
import torch

def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))

def evaluate(model):
    return float(model(torch.ones(4, 16)).shape[1])
"""
PYTHON = sys.executable
SHRINK = ("--evaluate", "model:evaluate", "--precision", "none", "--seeds", "1")
PLAN = ("--batch", "64", "--gpus", "8", "--verify", "0")
RACE = {
    "verb": "race", "commands": [["python", "a.py"], ["python", "b.py"]], "verdict": "faster",
    "estimate": {"ratio": 1.25, "low": 1.2, "high": 1.3, "pairs": 12, "level": 0.95},
    "a_step": 0.05, "b_step": 0.04, "seconds_needed": None, "hotlap": "0", "arguments": [],
}  # fmt: skip
CALLS: dict[Words, Words] = {
    ("profile",): ("--steps", "5", PYTHON, "short.py"),
    ("tune",): ("--budget", "20s", "--only", "fused_optimizer", PYTHON, "train.py"),
    ("run",): (PYTHON, "short.py"),
    ("race",): ("--budget", "1s", PYTHON, "train.py", "--", PYTHON, "train.py", "2"),
    ("compare",): ("race.json", "race.json"),
    ("export",): ("--to", "tensorboard", "race.json"),
    ("bisect",): ("--budget", "1s", "HEAD~1", "--", PYTHON, "train.py"),
    ("patch",): ("short.py",),
    ("lint",): ("short.py",),
    ("explain",): (),
    ("lr",): ("--steps", "10", PYTHON, "light.py"),
    ("batch",): ("--budget", "15s", "--max", "16", "--steps", "1", PYTHON, "train.py"),
    ("shrink",): ("model:build", *SHRINK, "--params", "0.5x"),
    ("pack", "into"): ("samples.csv", "made"),
    ("pack", "info"): ("store",),
    ("pack", "verify"): ("store",),
    ("pack", "bench"): ("store", "--samples", "4"),
    ("plan",): ("llama3-8b", *PLAN),
    ("bench",): ("--quick", "--only", "zero_grad"),
    ("kernel", "check"): ("mine.py", "--race", "none"),
    ("kernel", "new"): ("another",),
    ("launch",): ("--nproc-per-node", "1", "short.py"),
    ("doctor",): (),
    ("machine",): (),
}
"""How each verb is called so that it does its work; it works in the folder of `workplace`."""
UNCALLED = {("mcp",)}
"""What speaks a protocol on stdin and stdout, and nothing else."""
SLOW = {
    ("tune",), ("race",), ("bisect",), ("batch",), ("shrink",), ("bench",), ("launch",),
    ("pack", "bench"),
}  # fmt: skip
OPERATOR = """
def reference(x):
    return x * 2

def kernel(x):
    return x + x
"""
NO_TRAINING = (PYTHON, "-c", "pass")
FAILURES: dict[Words, Words] = {
    ("profile",): NO_TRAINING,
    ("tune",): NO_TRAINING,
    ("race",): (*NO_TRAINING, "--", *NO_TRAINING),
    ("compare",): ("partial.json", "partial.json"),
    ("bisect",): ("no-such-revision", "--", *NO_TRAINING),
    ("patch",): ("missing.py",),
    ("lint",): ("missing.py",),
    ("explain",): ("no_such_technique",),
    ("lr",): NO_TRAINING,
    ("batch",): NO_TRAINING,
    ("shrink",): ("missing:build", *SHRINK, "--params", "0.5x"),
    ("pack", "info"): ("missing",),
    ("pack", "bench"): ("missing",),
    ("plan",): ("no-such-model", *PLAN),
    ("bench",): ("--only", "no_such_row"),
    ("kernel", "check"): ("missing.py",),
}
CANNOT_FAIL = {("doctor",), ("machine",)}
SPEAKS_ON_STDERR = {("profile",)}
"""stdout is the program's."""


def call(*words: str, cwd: Path, terminal: int) -> subprocess.CompletedProcess[str]:
    """hotlap with a pipe for stdout, and a terminal for stderr, on which progress would show."""
    return subprocess.run(
        [PYTHON, "-m", "hotlap", *words],
        cwd=cwd, stdout=subprocess.PIPE, stderr=terminal, text=True, timeout=240, check=False,
        stdin=subprocess.DEVNULL, env=os.environ | {"TERM": "xterm", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workplace")
    texts = {
        "train.py": TRAIN,
        "short.py": SHORT,
        "light.py": light(SHORT),
        "model.py": MODEL,
        "mine.py": OPERATOR,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "samples.csv").write_text("value,label\n" + "0.5,1\n0.5,0\n" * 4)
    (folder / "partial.json").write_text('{"verb": "profile"}')
    (folder / "race.json").write_text(json.dumps(RACE))
    (folder / "hotlap.toml").write_text("[techniques.fused_optimizer]\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "train.py"), ("commit", "-qm", "one"),
                  ("commit", "-qm", "two", "--allow-empty")):  # fmt: skip
        subprocess.run([*git, *words], cwd=folder, check=True)
    subprocess.run(
        [PYTHON, "-m", "hotlap", "pack", "samples.csv", "store"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder


def quiet_call(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and what a terminal saw of stderr."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as seen:
        done = call(*words, cwd=folder, terminal=theirs)
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = seen.read(65536)
            except OSError:  # all of it was read
                break
            if not part:
                break
            shown += part
    return done.returncode, done.stdout, shown.decode()


def test_every_verb_says_how_it_is_called() -> None:
    assert set(CALLS) | UNCALLED == {words for words, _ in commands()}


CASES = [
    pytest.param(words, id=" ".join(words), marks=[pytest.mark.slow] if words in SLOW else [])
    for words in CALLS
]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow])
        if case.values[0]
        in {
            ("lr",),
            ("kernel", "check"),
            ("run",),
            ("pack", "into"),
        }  # --json is as quiet, and is called too
        else case
        for case in CASES
    ],
)
def test_quiet_is_quiet(words: Words, workplace: Path) -> None:
    """Nothing on stderr but what was asked for, not even the codes of a progress line."""
    code, out, err = quiet_call(workplace, *words, "--quiet", *CALLS[words])
    assert code in {0, 1}, err
    chatter = r"(?m)^(isolation:|report: |next: |Next\b|Try )|--hints|\x1b\[\?25|\x1b7"
    assert not re.search(chatter, out + err), out + err
    if words not in SPEAKS_ON_STDERR:
        assert "hotlap" not in err, err
        assert "\x1b" not in err, err


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow])
        if case.values[0] == ("profile",)  # tests/reporting/test_schema.py reads its document
        else case
        for case in CASES
    ],
)
def test_json_is_one_document(words: Words, workplace: Path) -> None:
    command = dict(commands())[words]
    if "--json" not in option_names(command):
        pytest.skip("prints no document")
    code, out, err = quiet_call(workplace, *words, "--json", *CALLS[words])
    assert code in {0, 1}, err
    document = json.loads(out)
    assert document["schema_version"] == SCHEMA_VERSION
    assert document["verb"] == words[-1]


def test_every_verb_with_json_has_a_failure() -> None:
    documented = {words for words, found in commands() if "--json" in option_names(found)}
    assert set(FAILURES) | CANNOT_FAIL == documented


@pytest.mark.parametrize("words", FAILURES, ids=" ".join)
def test_a_failure_is_a_document_or_an_error(words: Words, workplace: Path) -> None:
    code, out, err = quiet_call(workplace, *words, "--json", *FAILURES[words])
    assert code in {NEGATIVE, USAGE, NOT_REACHED, FAILED}, out + err
    assert "Traceback" not in err
    if out:
        assert json.loads(out)["schema_version"] == SCHEMA_VERSION
    else:
        assert re.search(r"(?m)^hotlap: \S|^Error: \S", err.rpartition("\x1b8")[2]), err
