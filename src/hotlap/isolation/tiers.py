"""Chooses how trials are kept from changing the user's files: the best that this machine allows."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.core.spec import Tier
from hotlap.isolation import landlock, namespace, seccomp
from hotlap.isolation.folders import remove_tree, temporary_folder
from hotlap.isolation.layout import Layout, Planner, below, is_empty, mounts, subdirectories
from hotlap.seam.guard.roots import default_keep

FORCED = "HOTLAP_ISOLATION"
WRITABLE = "HOTLAP_WRITABLE"
_PROBE_SECONDS = 20.0


_MEANING = {
    Tier.OVERLAY: "each trial writes to a layer of its own, removed at its end",
    Tier.LANDLOCK: (
        "writes by Python go to a scratch folder; the kernel refuses all other writes outside of "
        "temporary folders and caches (--writable DIR allows one more)"
    ),
    Tier.GUARD: (
        "writes by Python go to a scratch folder; programs and libraries that open files by "
        "themselves write for real, and each changed file is named at the end"
    ),
    Tier.OFF: "trials write over your files",
}


@dataclass(frozen=True)
class Isolation:
    """The tier in use, and why it is not a stronger one; `layers_in_temp` and `privileged` are how.

    `writable` are further directories that trials write for real.
    """

    tier: Tier
    detail: str = ""
    writable: tuple[str, ...] = ()
    layers_in_temp: bool = False
    privileged: bool = False

    def line(self) -> str:
        """One line for the start of a verb."""
        why = f" [{self.detail}]" if self.detail else ""
        return f"isolation: {self.tier} - {_MEANING[self.tier]}{why}"

    def to_json(self) -> dict[str, object]:
        """The record in `--json` documents and reports."""
        return {"tier": str(self.tier), "detail": self.detail, "writable": list(self.writable)}

    def shared(self) -> tuple[str, ...]:
        """The directories that trials write for real, as they exist."""
        found = (os.path.realpath(path) for path in (*default_keep(), *self.writable))
        return tuple(dict.fromkeys(path for path in found if os.path.isdir(path)))

    def cover(self) -> tuple[str, ...]:
        """The working directory, whose files trials leave alone; none where it is `writable`."""
        root = os.path.realpath(Path.cwd())
        return () if any(below(root, path) for path in self.writable) else (root,)

    def writable_paths(self, scratch: Path, folder: Path) -> list[str]:
        """What Landlock lets a trial write.

        A rule cannot take away what one above it gives: of a shared directory with the working
        directory below it, the other entries are listed, and the trial gets a temporary folder.
        """
        covered = self.cover()
        found = [str(scratch.resolve()), str(folder.resolve())]
        pending = list(self.shared())
        while pending:
            path = pending.pop()
            if not any(below(root, path) for root in covered):
                found.append(path)
            elif path not in covered:
                pending += [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
        return found

    def layout(self, scratch: Path, folder: Path, files: Mapping[str, str] | None = None) -> Layout:
        """The mounts of one trial: `scratch` is its own and real, `folder` holds its spec.

        `files` are the paths and texts of files that only the trial sees.

        The directory around `scratch`, with the layers in it, shows only `scratch` inside.
        """
        scratch, folder = scratch.resolve(), folder.resolve()
        view = scratch / "view"
        (view / scratch.name).mkdir(parents=True)
        root, covered = os.path.realpath(Path.cwd()), self.cover()
        keep = [path for path in self.shared() if path not in covered]
        sites = {os.path.dirname(path) for path in files or ()}
        # A Python may lie in a shared directory, such as /tmp.
        cover = (*covered, *sorted(site for site in sites if _nearest(site, (root, *keep)) in keep))
        shared = {str(scratch.parent): str(view), str(folder): str(folder)}
        layers = folder if self.layers_in_temp else scratch
        needed = (root, os.path.realpath(Path.home()))
        planner = Planner(mounts(), cover, keep, self.privileged, subdirectories, is_empty)
        planned = planner.layout(str(layers / "layers"), shared, needed)
        return replace(planned, files=dict(files or {}))


def _nearest(path: str, roots: Sequence[str]) -> str:
    """The deepest of these directories that holds the path; empty if none does."""
    return max((root for root in roots if below(path, root)), key=len, default="")


def isolation(scratch: Path) -> Isolation:
    """The isolation of trials that are started here and keep their writes below `scratch`.

    Raises:
        UsageError: `HOTLAP_ISOLATION` asks for a tier that this machine does not have.
    """
    writable = tuple(filter(None, os.environ.get(WRITABLE, "").split(os.pathsep)))
    real = tuple(os.path.realpath(path) for path in writable)
    return _chosen(os.environ.get(FORCED, ""), str(Path.cwd()), str(scratch), real)


@functools.lru_cache
def _chosen(forced: str, _: str, scratch: str, writable: tuple[str, ...]) -> Isolation:
    if forced and forced not in set(Tier):
        raise UsageError(f"{FORCED}={forced}: no such tier", f"one of {', '.join(Tier)}")
    reasons: list[str] = []
    for tier in [Tier(forced)] if forced else list(Tier):
        found = _attempt(tier, Path(scratch), writable, reasons)
        if found is not None:
            return found
    raise UsageError(f"{FORCED}={forced} is not possible here: {'; '.join(reasons)}")


def _attempt(
    tier: Tier, scratch: Path, writable: tuple[str, ...], reasons: list[str]
) -> Isolation | None:
    if tier is Tier.OVERLAY:
        return _overlay(scratch, writable, reasons)
    if tier is Tier.LANDLOCK and landlock.version() < 1:
        reasons.append("the kernel has no Landlock")
        return None
    if tier is Tier.LANDLOCK and not seccomp.available():
        reasons.append("programs may change modes, owners and times: no seccomp notification")
    return Isolation(tier, "; ".join(reasons), writable)


def _overlay(scratch: Path, writable: tuple[str, ...], reasons: list[str]) -> Isolation | None:
    """Try it for real, in a child: with the rights of root or without, layers here or in temp."""
    why = ""
    for privileged in (True, False) if os.geteuid() == 0 else (False,):
        for in_temp in (False, True):
            tried = Isolation(Tier.OVERLAY, "", writable, in_temp, privileged)
            why = _refusal(tried, scratch)
            if not why:
                return tried
    reasons.append(f"no overlay: {why}")
    return None


def _refusal(tried: Isolation, scratch: Path) -> str:
    """Why an overlay is not possible; empty if it is."""
    folder = temporary_folder("hotlap-probe-", scratch)
    own = scratch / f"{folder.name}-own"  # both may lie in the temporary folder
    try:
        layout = tried.layout(own, folder)
        isolated = (*tried.cover(), *layout.needed, str(folder))[0]
        probe = Path(isolated, f"{folder.name}-probe")
        plan = folder / "plan.json"
        plan.write_text(json.dumps({"layout": layout.to_json(), "probe": str(probe)}))
        command = [sys.executable, "-I", "-S", namespace.__file__, str(plan)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
        if done.returncode:
            return [f"exit code {done.returncode}", *done.stderr.strip().splitlines()][-1]
        return f"{isolated} is written for real" if layout.needed and probe.exists() else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        remove_tree(own)
        remove_tree(folder)
