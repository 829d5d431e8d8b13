"""Ranks of torch.distributed on this machine: forked, so that a test costs a tenth of a second."""

import faulthandler
import io
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

LIMIT = 120  # seconds; a rank whose peer died would wait for ever


def ranks(world: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """Call `function(*args)` on each rank of a gloo group; return what each returned."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    started = []
    for rank in range(world):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_rank, args=(rank, world, port, theirs, function, args))
        process.start()
        theirs.close()
        started.append((process, ours))
    answers = [_answer(ours) for _, ours in started]
    for process, _ in started:
        process.join()
    errors = [text for good, text in answers if not good]
    assert not errors, "\n".join(errors)
    return [torch.load(io.BytesIO(value), weights_only=False) for _, value in answers]


def _packed(value: Any) -> bytes:
    """A copy: a tensor in a pipe would be shared with a process that ends."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _answer(pipe: Connection) -> tuple[bool, Any]:
    try:
        answer: tuple[bool, Any] = pipe.recv()
    except EOFError:
        return False, "a rank died"
    return answer


def _rank(
    rank: int, world: int, port: int, pipe: Connection, function: Callable[..., Any], args: Any
) -> None:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    try:
        url = f"tcp://127.0.0.1:{port}"
        dist.init_process_group("gloo", init_method=url, rank=rank, world_size=world)
        pipe.send((True, _packed(function(*args))))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        pipe.send((False, traceback.format_exc()))
        os._exit(1)
    os._exit(0)
