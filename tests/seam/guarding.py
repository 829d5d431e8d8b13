"""Runs a script bare and guarded in the same folder, and compares."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hotlap.isolation.tree_diff import changed, tree_hash

SRC = Path(__file__).parents[2] / "src"
BOOT = """
import os, sys
sys.path.insert(0, {src!r})
if "GUARD_SCRATCH" in os.environ:
    from hotlap.seam.guard import install
    install(os.environ["GUARD_SCRATCH"])
"""


@dataclass
class Bench:
    project: Path
    boot: Path
    scratch: Path

    def run(self, script: str, *, guarded: bool) -> tuple[int, str, str]:
        environment = os.environ | {
            "PYTHONPATH": str(self.boot),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }
        if guarded:
            environment["GUARD_SCRATCH"] = str(self.scratch)
        path = self.boot.parent / "script.py"
        path.write_text(script)
        done = subprocess.run(
            [sys.executable, str(path)],
            cwd=self.project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def compare(self, script: str) -> str:
        """The same output and exit code; guarded, the tree stays as it was."""
        before = tree_hash(self.project)
        guarded = self.run(script, guarded=True)
        assert changed(before, tree_hash(self.project)) == ()
        bare = self.run(script, guarded=False)
        assert bare[0] == 0, bare[2]
        assert guarded[1].splitlines() == bare[1].splitlines(), guarded[2]
        assert guarded[0] == bare[0], guarded[2]
        return guarded[1]


def make_bench(root: Path) -> Bench:
    bench = Bench(root / "project", root / "boot", root / "scratch")
    for folder in (bench.project, bench.boot, bench.scratch):
        folder.mkdir()
    (bench.boot / "sitecustomize.py").write_text(BOOT.format(src=str(SRC)))
    fill(bench.project)
    return bench


def fill(project: Path) -> None:
    """What the user has lying about."""
    (project / "log.txt").write_text("old line\n")
    (project / "settings.json").write_text('{"lr": 0.1}')
    (project / "helper.py").write_text("VALUE = 41\n")
    (project / "data" / "a").mkdir(parents=True)
    for number in range(5):
        (project / "data" / "a" / f"{number}.txt").write_text(str(number))
    (project / "runs" / "old").mkdir(parents=True)
    (project / "runs" / "old" / "ckpt.pt").write_bytes(b"precious")
    (project / "latest").symlink_to("runs/old/ckpt.pt")
    (project / "aliases").symlink_to(project / "data" / "a")
    (project / "empty").mkdir()
    (project / "readonly.txt").write_text("r")
    (project / "readonly.txt").chmod(0o444)
