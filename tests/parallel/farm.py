"""Ranks for a test: forked, connected by Gloo, each with a time limit and a clean end."""

import faulthandler
import gc
import multiprocessing
import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
import torch.distributed as dist

LIMIT = 120  # seconds; a rank that waits for a dead one would wait for ever


def run(world: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """Call `function(*args)` on each rank of a new world; what each returned, by rank.

    Raises:
        RuntimeError: a rank failed; with its traceback.
    """
    context = multiprocessing.get_context("fork")
    processes: list[BaseProcess] = []
    pipes: dict[Connection, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(world):
                ours, theirs = context.Pipe(duplex=False)
                given = (function, args, rank, world, f"{folder}/meeting", theirs)
                process = context.Process(target=_rank, args=given)
                process.start()
                theirs.close()
                processes.append(process)
                pipes[ours] = rank
            found = _gather(pipes)
            for process in processes:
                process.join(LIMIT)
            return found
        finally:
            for process in processes:
                process.kill()
                process.join()


def _gather(pipes: dict[Connection, int]) -> list[Any]:
    found: list[Any] = [None] * len(pipes)
    waiting = dict(pipes)
    while waiting:
        for pipe in wait(list(waiting)):
            rank = waiting.pop(pipe)
            try:
                failed, value = pickle.loads(pipe.recv_bytes())
            except EOFError:
                failed, value = True, "it died, or took longer than the limit"
            if failed:
                raise RuntimeError(f"rank {rank}: {value}")
            found[rank] = value
    return found


def _rank(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    rank: int,
    world: int,
    meeting: str,
    pipe: Connection,
) -> None:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=world
        )
        pipe.send_bytes(pickle.dumps((False, function(*args))))
        end()
    except BaseException:
        pipe.send_bytes(pickle.dumps((True, traceback.format_exc())))
    finally:
        pipe.close()
        os._exit(0)  # what the parent registered to run at its exit is not the rank's to run


def end() -> None:
    """Leave a process group in order: nothing of it is in use any more, on any rank."""
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
    gc.collect()
