"""The machine at hand, as far as it changes what a training run can reach.

Nothing here imports torch, and nothing names the host. Readers take a file system `root`, so that
tests can hand them a made-up `/proc` and `/sys`.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
GIB = 2**30


@dataclass(frozen=True)
class Gpu:
    """One visible GPU: its product name and its memory in bytes (0 where it is not known)."""

    name: str
    memory: int


NO_GPU = "no GPU"
"""What a machine's summary says where there is none."""


@dataclass(frozen=True)
class Machine:
    """What this process may use of the hardware; memory in bytes."""

    cpu: str
    logical_cores: int
    physical_cores: int
    memory: int
    gpus: tuple[Gpu, ...]
    system: str
    kernel: str
    arch: str

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that change when the hardware does.

        Left out because they move on unchanged hardware: memory (MemTotal shifts with kernels and
        grows in microVMs; nvidia-smi may be too slow to tell a GPU's) and the kernel's release.
        """
        names = [gpu.name for gpu in self.gpus]
        facts = [self.cpu, self.logical_cores, self.physical_cores, names, self.system, self.arch]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]

    def summary(self) -> str:
        """One line for a person: CPU, cores, memory, GPUs, system."""
        cores = f"{_count(self.logical_cores, 'core')} ({self.physical_cores} physical)"
        memory = f"{self.memory / GIB:.1f} GiB"
        system = f"{self.system} {self.kernel} {self.arch}"
        return ", ".join([self.cpu, cores, memory, _gpu_line(self.gpus), system])


def detect(root: Path = ROOT) -> Machine:
    """Describe this machine as this process may use it; takes milliseconds, 2 s at most."""
    allowed = _allowed_cpus()
    logical = _within_quota(len(allowed), cpu_quota(root))
    return Machine(
        cpu=_cpu_model(root),
        logical_cores=logical,
        physical_cores=min(logical, _physical_cores(allowed, root)),
        memory=min([_meminfo("MemTotal", root), *_memory_limits(root).values()]),
        gpus=_visible(_gpus(root), os.environ.get("CUDA_VISIBLE_DEVICES")),
        system=platform.system(),
        kernel=platform.release(),
        arch=platform.machine(),
    )


def has_nvidia_gpu(root: Path = ROOT) -> bool:
    """Whether an NVIDIA GPU or its tool is there, by a look at files alone."""
    return any(root.glob("proc/driver/nvidia/gpus/*")) or shutil.which("nvidia-smi") is not None


def available_memory(root: Path = ROOT) -> int:
    """Bytes this process can still take: the least left in the machine and in each cgroup above it.

    Page cache counts as free, since the kernel gives it back under pressure.
    """
    left = [max(0, limit - _in_use(group)) for group, limit in _memory_limits(root).items()]
    return min([_meminfo("MemAvailable", root), *left])


# cgroups: a limit holds for everything below it, so each level up to the mount is read.


def cpu_quota(root: Path = ROOT) -> float | None:
    """CPUs' worth of time that the cgroups grant (1.5 is one and a half), or None without limit."""
    quotas = [quota for group in _cgroup_dirs("cpu", root) if (quota := _quota(group))]
    return min(quotas, default=None)


def _cgroup_dirs(controller: str, root: Path) -> Iterator[Path]:
    """Yield our groups for a controller, innermost first, in v2 and v1 trees alike.

    A container often sees its own group mounted at the top while /proc still names the host's
    path; the mount itself is therefore always among them, and absent folders do no harm.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in _mounts(names, controller, root / "sys/fs/cgroup"):
            for depth in range(len(parts), -1, -1):
                yield mount.joinpath(*parts[:depth])


def _mounts(names: str, controller: str, base: Path) -> tuple[Path, ...]:
    if not names:  # the v2 tree
        return (base, base / "unified")
    if controller in names.split(","):
        return (base / names, base / controller)
    return ()


def _quota(group: Path) -> float | None:
    v2 = _read(group / "cpu.max").split()
    v1 = [_read(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    quota, period = (_number(text) for text in (v2 if len(v2) == 2 else v1))
    return quota / period if quota and period else None


def _within_quota(cores: int, quota: float | None) -> int:
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def _memory_limits(root: Path) -> dict[Path, int]:
    """Bytes allowed by each group that sets a limit (`memory.high` stalls a process: a limit)."""
    names = ("memory.max", "memory.high", "memory.limit_in_bytes")
    limits: dict[Path, int] = {}
    for group in _cgroup_dirs("memory", root):
        found = [limit for name in names if (limit := _number(_read(group / name)))]
        if found:
            limits[group] = min(found)
    return limits


def _in_use(group: Path) -> int:
    used = _number(_read(group / "memory.current") or _read(group / "memory.usage_in_bytes")) or 0
    lines = _read(group / "memory.stat").splitlines()
    stat = {key: value for key, _, value in (line.partition(" ") for line in lines)}
    total = "total_" if "total_inactive_file" in stat else ""  # v1: with the groups below it
    cache = (_number(stat.get(f"{total}{name}_file", "")) or 0 for name in ("inactive", "active"))
    return max(0, used - sum(cache))


# CPU and memory


def _allowed_cpus() -> set[int]:
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # not on Linux
        return set(range(os.cpu_count() or 1))


def _physical_cores(cpus: set[int], root: Path) -> int:
    """Cores behind these logical CPUs: hardware threads of one core share a siblings list."""
    base = root / "sys/devices/system/cpu"
    siblings = (_read(base / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus)
    return len({text or str(cpu) for cpu, text in zip(cpus, siblings, strict=True)})


def _cpu_model(root: Path) -> str:
    lines = _read(root / "proc/cpuinfo").splitlines()
    facts = {key.strip(): value for key, _, value in (line.partition(":") for line in lines)}
    arm = " ".join([facts.get("CPU implementer", ""), facts.get("CPU part", "")])
    name = facts.get("model name") or arm.strip() or platform.processor() or platform.machine()
    return " ".join(name.split())


def _meminfo(field: str, root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # no /proc to ask


# GPUs: rows of (UUID, Gpu) in PCI order


def _gpus(root: Path) -> list[tuple[str, Gpu]]:
    """NVIDIA GPUs by nvidia-smi, or by the driver's own files where it is absent or too slow."""
    command = ["nvidia-smi", "--query-gpu=uuid,memory.total,name", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2, check=True)
    except (OSError, subprocess.SubprocessError):
        return [_driver_row(path) for path in sorted(root.glob("proc/driver/nvidia/gpus/*"))]
    return [_smi_row(line) for line in done.stdout.splitlines() if line.count(",") >= 2]


def _smi_row(line: str) -> tuple[str, Gpu]:
    uuid, mebibytes, name = (part.strip() for part in line.split(",", 2))
    return uuid, Gpu(name, (_number(mebibytes) or 0) * 2**20)


def _driver_row(folder: Path) -> tuple[str, Gpu]:
    lines = _read(folder / "information").splitlines()
    facts = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    return facts.get("GPU UUID", ""), Gpu(facts.get("Model", "NVIDIA GPU"), 0)


def _visible(rows: list[tuple[str, Gpu]], setting: str | None) -> tuple[Gpu, ...]:
    """Those that CUDA_VISIBLE_DEVICES leaves; as in CUDA, its first unknown entry ends the list."""
    if setting is None:
        return tuple(gpu for _, gpu in rows)
    chosen = []
    for token in setting.split(","):
        gpu = _chosen(rows, token.strip())
        if gpu is None:
            break
        chosen.append(gpu)
    return tuple(chosen)


def _chosen(rows: list[tuple[str, Gpu]], token: str) -> Gpu | None:
    if token.startswith("MIG-"):
        return Gpu("MIG slice", 0)
    by_uuid = token.startswith("GPU-")
    for index, (uuid, gpu) in enumerate(rows):
        if uuid.startswith(token) if by_uuid else token == str(index):
            return gpu
    return None


# words and files


def _gpu_line(gpus: tuple[Gpu, ...]) -> str:
    if not gpus:
        return NO_GPU
    counts = {gpu: gpus.count(gpu) for gpu in gpus}
    return " + ".join(f"{n} x {_gpu_words(gpu)}" for gpu, n in counts.items())


def _gpu_words(gpu: Gpu) -> str:
    return f"{gpu.name} ({gpu.memory / GIB:.0f} GiB)" if gpu.memory else gpu.name


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _number(text: str) -> int | None:
    """Return the text as a count, or None: absent, 'max', '[N/A]', or -1 for no limit."""
    text = text.strip()
    return int(text) if text.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
