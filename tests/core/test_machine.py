import dataclasses
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.core.machine import Gpu, Machine, available_memory, cpu_quota, detect

GIB = 2**30
SMI = "GPU-aa, 81559, NVIDIA H100 80GB HBM3\nGPU-bb, [N/A], NVIDIA GB10\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def meminfo(total_gib: int = 16, available_gib: int = 8) -> str:
    kib = GIB // 1024
    return f"MemTotal: {total_gib * kib} kB\nMemAvailable: {available_gib * kib} kB\n"


def machine(**changes: object) -> Machine:
    known = Machine("CPU 9000", 8, 4, 16 * GIB, (), "Linux", "6.1", "x86_64")
    return dataclasses.replace(known, **changes)


@pytest.fixture
def no_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(subprocess, "run", absent)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def smi(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 0, stdout=SMI)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


V1 = "3:memory:/box\n2:cpu,cpuacct:/box\n"
QUOTAS = {
    "v2": ({"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/cpu.max": "150000 100000\n"}, 1.5),
    "v2 unlimited": (
        {"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/cpu.max": "max 100000\n"},
        None,
    ),
    "v2 parent is tighter": (
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/pod/box/cpu.max": "400000 100000\n",
        },
        2.0,
    ),
    "v2 seen from a container": (
        {"proc/self/cgroup": "0::/docker/123\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"},
        0.5,
    ),
    "v2 outside the namespace": (
        {"proc/self/cgroup": "0::/../box\n", "sys/fs/cgroup/box/cpu.max": "300000 100000\n"},
        3.0,
    ),
    "v1": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
        },
        2.5,
    ),
    "v1 unlimited": (
        {
            "proc/self/cgroup": V1,
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n",
        },
        None,
    ),
    "another controller's file": (
        {"proc/self/cgroup": "2:cpuset:/\n", "sys/fs/cgroup/cpuset/cpu.max": "100000 100000\n"},
        None,
    ),
    "no cgroups": ({}, None),
}


@pytest.mark.parametrize(("files", "quota"), QUOTAS.values(), ids=QUOTAS)
def test_cpu_quota(tmp_path: Path, files: dict[str, str], quota: float | None) -> None:
    assert cpu_quota(tree(tmp_path, files)) == quota


@pytest.mark.parametrize(
    ("quota", "cores"), [("max", 4), ("800000", 4), ("250000", 3), ("50000", 1), ("100", 1)]
)
def test_cores_are_affinity_and_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_smi: None, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 4, 5})
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota} 100000"}
    siblings = {
        f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": text
        for cpu, text in {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}.items()
    }
    found = detect(tree(tmp_path, files | siblings))
    assert (found.logical_cores, found.physical_cores) == (cores, min(cores, 2))


def test_cores_without_topology_count_as_physical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_smi: None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert detect(tmp_path).physical_cores == 3


V2_MEMORY = {
    "proc/self/cgroup": "0::/pod/box\n",
    "proc/meminfo": meminfo(16, 8),
    "sys/fs/cgroup/pod/memory.max": f"{4 * GIB}\n",
    "sys/fs/cgroup/pod/memory.current": f"{3 * GIB}\n",
    "sys/fs/cgroup/pod/memory.stat": f"anon 5\nactive_file {GIB}\ninactive_file {GIB}\n",
    "sys/fs/cgroup/pod/box/memory.max": "max\n",
}
V1_MEMORY = {
    "proc/self/cgroup": V1,
    "proc/meminfo": meminfo(16, 8),
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{2 * GIB}\n",
    "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{GIB}\n",
    "sys/fs/cgroup/memory/box/memory.stat": "inactive_file 7\ntotal_inactive_file 512\n",
}


@pytest.mark.parametrize(
    ("files", "total", "available"),
    [
        (V2_MEMORY, 4 * GIB, 3 * GIB),
        (V2_MEMORY | {"sys/fs/cgroup/pod/box/memory.high": f"{GIB}"}, GIB, GIB),
        (V2_MEMORY | {"sys/fs/cgroup/pod/memory.current": f"{9 * GIB}"}, 4 * GIB, 0),
        (V1_MEMORY, 2 * GIB, GIB + 512),
        ({"proc/meminfo": meminfo(16, 8)}, 16 * GIB, 8 * GIB),
    ],
    ids=["v2", "v2 high", "v2 over", "v1", "no cgroups"],
)
def test_memory(
    tmp_path: Path, no_smi: None, files: dict[str, str], total: int, available: int
) -> None:
    root = tree(tmp_path, files)
    assert (detect(root).memory, available_memory(root)) == (total, available)


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor : 0\nmodel name\t: Some  CPU @ 3GHz\n", "Some CPU @ 3GHz"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "0x41 0xd0c"),
    ],
)
def test_cpu_name(tmp_path: Path, no_smi: None, cpuinfo: str, name: str) -> None:
    assert detect(tree(tmp_path, {"proc/cpuinfo": cpuinfo})).cpu == name


H100, GB10 = Gpu("NVIDIA H100 80GB HBM3", 81559 * 2**20), Gpu("NVIDIA GB10", 0)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [
        (None, (H100, GB10)),
        ("1,0", (GB10, H100)),
        ("0,7,1", (H100,)),
        ("GPU-b", (GB10,)),
        ("MIG-1234", (Gpu("MIG slice", 0),)),
        ("", ()),
        ("-1", ()),
    ],
)
def test_visible_gpus(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    smi: None,
    visible: str | None,
    gpus: tuple[Gpu, ...],
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert detect(tmp_path).gpus == gpus


def test_slow_nvidia_smi_falls_back_to_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object, timeout: float, **__: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", timeout)

    monkeypatch.setattr(subprocess, "run", slow)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-cc")
    text = "Model: \t\t NVIDIA L4\nGPU UUID: \t GPU-cc\n"
    root = tree(tmp_path, {"proc/driver/nvidia/gpus/0000:01:00.0/information": text})
    assert detect(root).gpus == (Gpu("NVIDIA L4", 0),)


def test_fingerprint_is_stable() -> None:
    assert detect().fingerprint == detect().fingerprint
    assert machine().fingerprint == "16510e363ebf"  # a new value makes every recipe stale


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        ({"cpu": "CPU 9001"}, True),
        ({"logical_cores": 4}, True),
        ({"gpus": (H100,)}, True),
        ({"arch": "aarch64"}, True),
        ({"memory": 17 * GIB}, False),
        ({"kernel": "6.2"}, False),
    ],
)
def test_fingerprint_follows_hardware_alone(change: dict[str, object], moves: bool) -> None:
    assert (machine(**change).fingerprint != machine().fingerprint) is moves


def test_fingerprint_does_not_need_gpu_memory() -> None:
    unknown = (Gpu(H100.name, 0),)
    assert machine(gpus=(H100,)).fingerprint == machine(gpus=unknown).fingerprint


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ((), "no GPU"),
        ((H100, H100), "2 x NVIDIA H100 80GB HBM3 (80 GiB)"),
        ((GB10, H100), "1 x NVIDIA GB10 + 1 x NVIDIA H100 80GB HBM3 (80 GiB)"),
    ],
)
def test_summary(gpus: tuple[Gpu, ...], words: str) -> None:
    expected = f"CPU 9000, 8 cores (4 physical), 16.0 GiB, {words}, Linux 6.1 x86_64"
    assert machine(gpus=gpus).summary() == expected


def test_this_machine() -> None:
    found = detect()
    assert found.cpu
    assert 1 <= found.physical_cores <= found.logical_cores <= len(os.sched_getaffinity(0))
    assert 0 < available_memory() <= found.memory
    assert platform.node() not in found.summary().split()


def test_no_torch_is_imported() -> None:
    code = "import sys, hotlap.core.machine as m; m.detect(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
