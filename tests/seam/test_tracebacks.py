"""No frame of hotlap's in what the user's program prints when it fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hotlap
from hotlap.core.spec import Mode, Spec
from hotlap.trial.launch import reaching

FAILURES = {
    "in a model": """
class Net(torch.nn.Module):
    def forward(self, x):
        raise ValueError("planted")
Net()(torch.ones(1))
""",
    "in torch": "torch.ones(2, 3).to('meta').to('nowhere')",
    "in a dataset": """
class Data:
    def __len__(self): return 2
    def __getitem__(self, i): raise ValueError("planted")
next(iter(torch.utils.data.DataLoader(Data())))
""",
    "in backward": "torch.ones(2).backward()",
    "formatted": """
import traceback
try:
    torch.ones(2).backward()
except RuntimeError:
    print(traceback.format_exc(), file=sys.stderr)
""",
    "chained": """
try:
    torch.ones(2).backward()
except RuntimeError as error:
    raise KeyError("planted") from error
""",
    "in a thread": """
import threading
thread = threading.Thread(target=lambda: torch.ones(2).backward())
thread.start(); thread.join()
""",
    "in an import": "import a_module_that_fails",
    "in a group": """
try:
    torch.ones(2).backward()
except RuntimeError as error:
    raise ExceptionGroup("planted", [error])
""",
}


@pytest.mark.parametrize("mode", [Mode.RUN, pytest.param(Mode.PROFILE, marks=pytest.mark.slow)])
def test_tracebacks_are_those_of_the_plain_run(tmp_path, mode):
    """One process shows all the failures: each ends a copy of it that was forked before."""
    (tmp_path / "a_module_that_fails.py").write_text("import os.nothing\n")
    (tmp_path / "script.py").write_text(
        "import atexit, os, sys\nimport torch\n"
        + "".join(
            "if not os.fork():\n"
            "    atexit.register(os._exit, 0)\n"  # freeing all of torch takes a child 1 s
            f"    exec(compile({code!r}, '<{name}>', 'exec'))\n"
            "    sys.exit()\n"
            "os.wait()\n"
            for name, code in FAILURES.items()
        )
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith("HOTLAP_")}
    plain = failing(tmp_path, env)
    spec = Spec("test", mode, str(tmp_path / "control"), {"no_grad_eval": {}})
    spec.write(tmp_path / "spec.json")
    errors = failing(tmp_path, reaching(env) | {"HOTLAP_SPEC": str(tmp_path / "spec.json")})
    assert errors.count("Traceback") >= len(FAILURES)
    text = errors.replace(str(Path(hotlap.__file__).parents[2]), "")  # the checkout's own name
    assert "hotlap" not in text
    assert frames(errors) == frames(plain)


def failing(folder, env):
    """What the script writes to its standard error."""
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr


def frames(text):
    """What was called, and the errors; a line number of torch's may be another."""
    names = re.findall(
        r"File .*?([^/\"]+)\", line \d+, in (\S+)|^\s*\|?\s*(\w+(?:Error|Group):.*)", text, re.M
    )
    return ["".join(name) for name in names]
