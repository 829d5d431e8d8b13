"""Audit hooks cannot be removed: they hear what happens while the interpreter ends as well."""

import subprocess
import sys

import pytest

LATE = """
class Late:  # opens a file when it is freed, after the modules were emptied
    def __init__(self, name):
        self.open, self.name = open, name
    def __del__(self):
        self.open(self.name).close()
        print("opened late", flush=True)
"""
HOOKS = {
    "files that wait": """
import hotlap.seam.file_barrier as module
class Nothing:
    def before(self, *args): pass
with module.watching(Nothing()):
    pass
""",
    "files of a dataset": """
import hotlap.seam.probe.dataset as module
with module.opened():
    pass
""",
}


@pytest.mark.parametrize("use", HOOKS.values(), ids=HOOKS)
def test_a_hook_is_silent_while_the_interpreter_ends(use, tmp_path):
    (tmp_path / "f").touch()
    script = f"{LATE}{use}\nmodule.zz_late = Late({str(tmp_path / 'f')!r})\n"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert "opened late" in done.stdout
    assert done.stderr == ""
