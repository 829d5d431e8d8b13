"""Revisions of the user's git repository as folders that a command can be run in, side by side.

A revision is checked out through an index of its own, so that the user's repository is only read:
no branch, index or list of work trees changes. What git does not track (data, built extensions,
caches) is linked into the folder, because programs need it; trials write into their own layer.
"""

import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from hotlap.core.errors import UsageError
from hotlap.notebook.script import notebook_of, write_script
from hotlap.trial.command import python_of

NOT_LINKED = {"__pycache__", ".hotlap", ".git"}
RUN_IN = 'cd "$1" && export PYTHONPATH="$2${PYTHONPATH:+:$PYTHONPATH}" && shift 2 && exec "$@"'
"""Shell script: change to a folder, import from other folders first, become the command."""

OWNER = "owner"
"""The file of a folder that says which process of which machine made it."""


@dataclass(frozen=True)
class Commit:
    """A commit: its full hash and the first line of its message."""

    hash: str
    subject: str

    @property
    def short(self) -> str:
        """The first nine digits of the hash."""
        return self.hash[:9]


@dataclass(frozen=True)
class Repository:
    """The repository that a folder lies in; `top` is the root of its work tree."""

    top: Path

    @classmethod
    def around(cls, folder: Path) -> "Repository":
        """The repository around a folder.

        Raises:
            UsageError: git is not installed, or the folder is in no repository.
        """
        if shutil.which("git") is None:
            raise UsageError("git is not installed", "install git to compare revisions")
        found = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--show-toplevel"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if found.returncode:
            raise UsageError(f"{folder} is in no git repository")
        return cls(Path(found.stdout.strip()))

    def commit(self, revision: str) -> Commit:
        """The commit that a revision names.

        Raises:
            UsageError: the repository has no such revision.
        """
        try:
            line = self._git("log", "-1", "--format=%H %s", "--end-of-options", revision, "--")
        except subprocess.CalledProcessError:
            raise UsageError(
                f"{revision!r} is no revision of {self.top}", "`git log --oneline` lists them"
            ) from None
        return _commit(line)

    def between(self, good: Commit, bad: Commit) -> list[Commit]:
        """The commits after `good` up to `bad`, oldest first, along first parents.

        Raises:
            UsageError: `bad` does not come after `good`.
        """
        lines = self._git(
            "log", "--reverse", "--first-parent", "--format=%H %s", f"{good.hash}..{bad.hash}", "--"
        ).splitlines()
        ancestor = subprocess.run(
            ["git", "-C", str(self.top), "merge-base", "--is-ancestor", good.hash, bad.hash],
            check=False,
        )
        if not lines or ancestor.returncode:
            raise UsageError(
                f"{bad.short} does not come after {good.short}",
                "name the fast revision first: hotlap bisect GOOD BAD -- CMD",
            )
        return [_commit(line) for line in lines]

    @contextmanager
    def checked_out(self, commit: Commit, below: Path) -> Iterator[Path]:
        """A folder below `below` with the files of a commit; it is removed at the end.

        Those that a process left here which was killed are removed first.
        """
        below.mkdir(parents=True, exist_ok=True)
        for left in filter(_abandoned, below.iterdir()):
            shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{commit.short}-", dir=below))
        try:
            (folder / OWNER).write_text(f"{os.getpid()} {platform.node()}")
            tree = folder / "tree"
            tree.mkdir()
            self._write(commit, tree, folder / "index")
            self._link_untracked(tree)
            yield tree
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def command_in(self, tree: Path, command: Sequence[str]) -> tuple[str, ...]:
        """The command as it runs in a checked-out tree, from the same folder below its root.

        Paths below the repository, in the command and in Python's search path (an editable
        install), are turned into those of the tree. A notebook's script is written there, of the
        notebook as it was committed.

        Raises:
            UsageError: the notebook is not in that tree, or is no program there.
        """
        moved = [self._moved(word, tree) for word in command]
        here = self._moved(str(Path.cwd()), tree)
        scripts = (word for word in command if word.endswith(".py"))
        for notebook in filter(None, map(notebook_of, scripts)):
            with chdir(here):
                write_script(Path(self._moved(notebook, tree)))
        imports = os.pathsep.join(self._moved(path, tree) for path in self._own_imports(command))
        return ("sh", "-c", RUN_IN, "sh", here, imports or here, *moved)

    def _moved(self, path: str, tree: Path) -> str:
        top = str(self.top)
        inside = path == top or path.startswith(top + os.sep)
        return str(tree) + path[len(top) :] if inside else path

    def _own_imports(self, command: Sequence[str]) -> list[str]:
        """The folders of this repository that the command's Python imports from."""
        program = "import json, sys; print(json.dumps(sys.path[1:]))"
        found = subprocess.run(
            [python_of(command), "-c", program], capture_output=True, text=True, check=False
        )
        paths = json.loads(found.stdout) if found.returncode == 0 else []
        packages = ("site-packages", "dist-packages")
        own = [path for path in paths if self._moved(path, Path()) != path]
        return [path for path in own if not any(name in path for name in packages)]

    def _write(self, commit: Commit, tree: Path, index: Path) -> None:
        env = {**os.environ, "GIT_INDEX_FILE": str(index)}
        self._git("read-tree", commit.hash, env=env)
        self._git("checkout-index", "--all", f"--prefix={tree}/", env=env)

    def _link_untracked(self, tree: Path) -> None:
        listed = self._git("ls-files", "-z", "--others", "--directory", "--no-empty-directory")
        for name in filter(None, listed.split("\0")):
            parts = Path(name).parts
            target = tree / name.rstrip("/")
            if NOT_LINKED.isdisjoint(parts) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(self.top / name.rstrip("/"))

    def _git(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.top), *words],
            capture_output=True, text=True, check=True, env=env,
        )  # fmt: skip
        return done.stdout


def _commit(line: str) -> Commit:
    digest, _, subject = line.strip().partition(" ")
    return Commit(digest, subject)


def _abandoned(folder: Path) -> bool:
    """Whether the process that made a folder was one of this machine, and is gone."""
    try:
        pid, _, machine = (folder / OWNER).read_text().partition(" ")
    except OSError:
        return False
    return pid.isdigit() and machine == platform.node() and not psutil.pid_exists(int(pid))
