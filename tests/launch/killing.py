"""Trainings below `hotlap launch` that lose a rank, a node, or everything while they save."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn

from hotlap.parallel.sharded_checkpoint import ShardedCheckpointer

TRAINING = Path(__file__).with_name("training.py")
STEPS = 48
LIMIT = 150.0


@dataclass(frozen=True)
class Step:
    """One line of a training's notes."""

    count: int
    world: int
    attempt: int
    total: float


def steps(folder: Path) -> list[Step]:
    path = folder / "steps"
    lines = path.read_text().splitlines() if path.exists() else []
    parts = [line.split() for line in lines]
    return [Step(int(a), int(b), int(c), float.fromhex(d)) for a, b, c, d in parts if d]


def launch(folder: Path, *words: str, training: tuple[str, ...] = ()) -> "subprocess.Popen[bytes]":
    """`hotlap launch WORDS training.py FOLDER ...`, its output in the folder."""
    folder.mkdir(exist_ok=True, parents=True)
    command = [sys.executable, "-m", "hotlap", "launch", *words, str(TRAINING), str(folder)]
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(
            [*command, *training], stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            cwd=folder, start_new_session=True,
        )  # fmt: skip


def wait_for(what: Callable[[], Any], folder: Path, limit: float = LIMIT) -> Any:
    """What `what` gives as soon as it is true; fails with the output after a while."""
    deadline = time.monotonic() + limit
    while not (found := what()):
        if time.monotonic() > deadline:
            raise TimeoutError((folder / "output").read_text()[-5000:])
        time.sleep(0.005)
    return found


def ended(process: "subprocess.Popen[bytes]", folder: Path) -> int:
    wait_for(lambda: process.poll() is not None, folder)
    return process.wait()


def orphans(folder: Path) -> list[int]:
    """Processes of a training that still live."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if str(folder) in words and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def finish(*processes: "subprocess.Popen[bytes]") -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def whole(folder: Path, layout: str = "ddp") -> list[Step]:
    """A training that nothing happens to: one rank, without a launcher."""
    folder.mkdir(exist_ok=True, parents=True)
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    command = [sys.executable, str(TRAINING), str(folder), layout, "4", "0"]
    subprocess.run(command, env=os.environ | alone, cwd=folder, check=True, timeout=LIMIT)
    return steps(folder)


def apart(found: list[Step], wanted: list[Step]) -> float:
    """The largest relative difference of parameters, over all steps that were made."""
    by_count = {step.count: step.total for step in wanted}
    return max(abs(step.total - by_count[step.count]) / by_count[step.count] for step in found)


def lose_a_rank(
    folder: Path, wanted: list[Step], draw: random.Random, layout: str
) -> dict[str, Any]:
    """Kill one of two ranks somewhere; the training is to go on by itself."""
    process = launch(folder, "--nproc-per-node", "2", training=(layout, "4", "0.02"))
    try:
        at = draw.randint(1, STEPS - 8)
        wait_for(lambda: len(steps(folder)) >= at, folder)
        rank = draw.randint(0, 1)
        os.kill(int((folder / f"pid-{rank}").read_text()), signal.SIGKILL)
        killed = time.monotonic()
        wait_for(lambda: steps(folder)[-1].attempt > 0 or process.poll() is not None, folder)
        back = time.monotonic() - killed
        code = ended(process, folder)
    finally:
        finish(process)
    found = steps(folder)
    return {
        "rank": rank, "after_step": at, "seconds_to_next_step": round(back, 2), "code": code,
        "recovered": code == 0 and found[-1].count == STEPS, "apart": apart(found, wanted),
        "orphans": len(orphans(folder)),
    }  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def node(
    folder: Path, port: int, number: int, again: int, layout: str, pause: str = "0.05"
) -> "subprocess.Popen[bytes]":
    """One of up to two nodes, which one is enough for."""
    words = (
        "--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-endpoint", f"127.0.0.1:{port}",
        "--rdzv-conf", "last_call_timeout=5,keep_alive_interval=1,keep_alive_max_attempt=3",
        "--node-rank", str(number), "--max-restarts", str(again),
    )  # fmt: skip
    return launch(folder, *words, training=(layout, "4", pause))


def lose_a_node(
    folder: Path, wanted: list[Step], draw: random.Random, layout: str, victim: str
) -> dict[str, Any]:
    """Kill one of two nodes (all of its launcher, or torchrun alone); the other is to go on."""
    port = free_port()
    again = 2 if victim == "launcher" else 0  # a lost torchrun would be started again
    nodes = [node(folder, port, 0, 2, layout), node(folder, port, 1, again, layout)]
    try:
        at = draw.randint(6, STEPS - 12)
        wait_for(lambda: len(steps(folder)) >= at, folder)
        assert steps(folder)[-1].world == 2
        pid = nodes[1].pid
        os.kill(pid if victim == "launcher" else _agent(pid), signal.SIGKILL)
        killed = time.monotonic()
        wait_for(lambda: steps(folder)[-1].world == 1, folder)
        back = time.monotonic() - killed
        code = ended(nodes[0], folder)
        lost = ended(nodes[1], folder)
    finally:
        finish(*nodes)
    found = steps(folder)
    return {
        "victim": victim, "after_step": at, "seconds_to_next_step": round(back, 2), "code": code,
        "code_of_the_lost": lost, "recovered": code == 0 and found[-1].count == STEPS,
        "apart": apart(found, wanted), "orphans": len(orphans(folder)),
    }  # fmt: skip


def _agent(launcher: int) -> int:
    """The torchrun below a launcher."""
    below = psutil.Process(launcher).children(recursive=True)
    return next(p.pid for p in below if "torch.distributed.run" in p.cmdline())


def lose_everything_in_a_save(
    folder: Path, wanted: list[Step], draw: random.Random, layout: str
) -> dict[str, Any]:
    """Kill all at once while each step saves; then what is there must load, and be right."""
    before = len(steps(folder))
    process = launch(folder, "--nproc-per-node", "2", training=(layout, "1", "0"))
    try:
        target = before + draw.randint(3, 14)  # the second save waits for the first
        wait_for(lambda: len(steps(folder)) >= target or process.poll() is not None, folder)
        time.sleep(draw.uniform(0, 0.02))
        half = any((folder / "checkpoints").glob("*.partial"))
        for rank in (0, 1):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((folder / f"pid-{rank}").read_text()), signal.SIGKILL)
    finally:
        finish(process)
    wait_for(lambda: not orphans(folder), folder, 20)
    return {"in_a_save": half, **intact(folder, wanted)}


def intact(folder: Path, wanted: list[Step]) -> dict[str, Any]:
    """Whether every checkpoint of a folder loads and has the parameters of its step."""
    saver = ShardedCheckpointer(folder / "checkpoints")
    known, worst = saver.steps(), 0.0
    for step in known:
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        optimizer = torch.optim.AdamW(model.parameters())
        loaded = saver.load([model], optimizer, step=step)
        assert loaded is not None
        assert loaded.shared["count"] == step
        total = sum(float(p.detach().double().abs().sum()) for p in model.parameters())
        worst = max(worst, apart([Step(step, 1, 0, total)], wanted))
    saver.close()
    return {"steps": known, "apart": worst, "intact": bool(known) and worst < 1e-6}
