"""A script that trains at its top level is not imported for the sake of one of its functions."""

import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.common.importing import WorksAtImportError, import_users, work_at_import
from hotlap.model.user_functions import InputError, function
from hotlap.parallel.dryrun.given import given

LOOP = "for x in range(3):\n    loss = f(x)\n    loss.backward()\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LOOP, 3),
        ("import torch\ntorch.save({}, 'model.pth')\n", 2),
        ("def train():\n    f().backward()\n\ndef main():\n    train()\n\nmain()\n", 7),
        ("with open('log.csv', 'a') as f:\n    f.write('x')\n", 1),
        ("with open('log.csv', mode='w') as f:\n    pass\n", 1),
        ("trainer = make()\ntrainer.train()\n", 2),
        ("from torch import save\nsave({}, 'model.pth')\n", 2),
        ("from pathlib import Path\nPath('log.csv').open('a').write('x')\n", 2),
        ("if __name__ != '__main__':\n    f().backward()\n", 2),
        ("trainer_net = make()\ntrainer_net.train()\n", None),
        ("from pathlib import Path\nrows = Path('rows.csv').open().read()\n", None),
        ("if __name__ == '__main__':\n    pass\nelse:\n    f().backward()\n", 4),
        ("def train():\n    f().backward()\n\nif __name__ == '__main__':\n    train()\n", None),
        ("class Net:\n    def save(self):\n        torch.save(self, 'x')\n", None),
        ("rows = open('rows.csv').read()\nscaler.fit(rows)\nmodel.train()\n", None),
        ("later = lambda: torch.save({}, 'x')\n", None),
        ("def broken(:\n", None),
    ],
)
def test_what_an_import_would_do_is_seen(tmp_path: Path, text: str, line: int | None) -> None:
    file = tmp_path / "train.py"
    file.write_text(text)
    assert work_at_import(file) == line


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that trains when it is imported."""
    (tmp_path / "trains_at_once.py").write_text(
        "from pathlib import Path\n\ndef make():\n    return 1\n\n"
        "Path('model.pth').write_text('')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "trains_at_once"


def test_it_is_refused_and_nothing_is_written(script: str) -> None:
    with pytest.raises(WorksAtImportError, match=r"trains_at_once.py works .* line 6, Path\("):
        import_users(script)
    with pytest.raises(InputError, match="works when it is imported") as refused:
        function(f"{script}.py:make")
    assert "__main__" in refused.value.hint
    with pytest.raises(ValueError, match=r"line 6.*__main__"):
        given(f"{script}:make", 8)
    assert not Path("model.pth").exists()


def test_what_defines_only_is_imported() -> None:
    assert import_users("json").loads("1") == 1
    with pytest.raises(ModuleNotFoundError):
        import_users("no_such_module_here")


def test_shrink_of_a_script_that_trains_at_once_says_so(script: str) -> None:
    words = [f"{script}.py:make", "--evaluate", f"{script}.py:make"]
    done = subprocess.run(
        [sys.executable, "-m", "hotlap", "shrink", *words], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "works when it is imported" in done.stderr + done.stdout
    assert not Path("model.pth").exists()
