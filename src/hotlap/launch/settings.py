"""The options of torchrun: the options as typed, and beside them the settings that recover."""

import os
import re
import shutil
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.core.machine import detect
from hotlap.launch.address import LOOPBACK, interface, split, towards
from hotlap.launch.options import OPTIONS

RESTARTS = 3
DEVICES = {"gpu", "cpu", "xpu", "auto"}
Given = Mapping[str, object]
_MEETING = ("node_rank", "master_addr", "master_port", "standalone")  # said by other options below


def command(given: Given, words: Sequence[str]) -> tuple[str, ...]:
    """The whole torchrun command.

    Args:
        given: option keys and values, those alone that were given.
        words: the script and its arguments, as typed.

    Raises:
        UsageError: there is no script, a number is none, or several nodes have nowhere to meet.
    """
    if not words:
        raise UsageError(
            "no script was given", "for example: hotlap launch --nproc-per-node 2 train.py"
        )
    _countable(given)
    options = {**_met(given), "max_restarts": restarts(given)} | _program(given, words[0])
    told: list[str] = []
    for option in OPTIONS:
        value = options.get(option.key)
        if value is True:
            told.append(f"--{option.name}")
        elif value is not None and value is not False:
            told.append(f"--{option.name}={value}")
    return (sys.executable, "-m", "torch.distributed.run", *told, *words)


def _countable(given: Given) -> None:
    ranks, nodes = str(given.get("nproc_per_node", "1")), str(given.get("nnodes", "1"))
    if not (re.fullmatch("[1-9][0-9]*", ranks) or ranks in DEVICES):
        raise UsageError(f"--nproc-per-node is {ranks!r}", "give a number, or gpu, cpu or auto")
    if not re.fullmatch("[1-9][0-9]*(:[1-9][0-9]*)?", nodes):
        raise UsageError(f"--nnodes is {nodes!r}", "give a number, or MIN:MAX")


def restarts(given: Given) -> int:
    """How often all ranks may start again.

    Raises:
        UsageError: that is no number.
    """
    typed = str(given.get("max_restarts", RESTARTS))
    if not typed.isdigit():
        raise UsageError(f"--max-restarts is {typed!r}", "give how often, 0 or more")
    return int(typed)


def environment(given: Given, base: Mapping[str, str]) -> dict[str, str]:
    """The environment of torchrun and its ranks; what is set in `base` stays."""
    chosen = {
        # Ranks of a new attempt must not meet in the store that the last one left behind.
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",  # a failed collective ends its rank
        "PYTHONFAULTHANDLER": "1",
        **_threads(given),
    }
    where = interface(str(_met(given).get("local_addr", "")))
    if where is not None:
        chosen["GLOO_SOCKET_IFNAME"] = where
    return chosen | dict(base)


def _met(given: Given) -> dict[str, object]:
    """The options with the rendezvous settled."""
    if given.get("rdzv_backend") == "static":
        return dict(given)
    rest = {key: value for key, value in given.items() if key not in _MEETING}
    endpoint = _endpoint(given)
    if given.get("standalone") or (not _several(given) and not given.get("rdzv_endpoint")):
        alone = {"rdzv_backend": "c10d", "rdzv_id": uuid.uuid4().hex, "local_addr": LOOPBACK}
        return alone | rest | {"rdzv_endpoint": f"{LOOPBACK}:0"}
    if not endpoint:
        raise UsageError(
            f"{given['nnodes']} nodes need a place to meet",
            "give --rdzv-endpoint HOST:PORT on each, HOST being the first node's address",
        )
    meeting = {"rdzv_backend": "c10d", "rdzv_endpoint": endpoint, "rdzv_conf": _conf(given)}
    if address := towards(*split(endpoint)):
        meeting["local_addr"] = address
    return meeting | rest | {"rdzv_conf": meeting["rdzv_conf"]}


def _several(given: Given) -> bool:
    return str(given.get("nnodes", "1")) not in {"1", "1:1"}


def _endpoint(given: Given) -> str:
    if given.get("rdzv_endpoint"):
        return str(given["rdzv_endpoint"])
    host = given.get("master_addr")
    return f"{host}:{given.get('master_port', 29500)}" if host else ""


def _conf(given: Given) -> str | None:
    """The rendezvous's own settings; the node's number says who keeps the store."""
    conf = str(given.get("rdzv_conf") or "")
    number = given.get("node_rank")
    if number is not None and "is_host" not in conf and "store_type" not in conf:
        conf = ",".join(filter(None, [conf, f"is_host={int(str(number) == '0')}"]))
    return conf or None


def _program(given: Given, first: str) -> dict[str, object]:
    """`python train.py` is taken as it is typed, as every verb takes it."""
    typed = given.keys() & {"module", "no_python", "run_path"}
    program = not typed and not Path(first).exists() and not first.endswith(".py")
    return {"no_python": True} if program and shutil.which(first) else {}


def _threads(given: Given) -> dict[str, str]:
    """The cores shared out among the ranks; torchrun would give each one thread."""
    ranks = _ranks(str(given.get("nproc_per_node", "1")))
    if ranks < 2:
        return {}
    return {"OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // ranks))}


def _ranks(typed: str) -> int:
    """How many ranks this node will have; 0 where torchrun alone knows."""
    if typed in {"gpu", "auto"}:
        return len(detect().gpus)
    return int(typed) if typed.isdigit() else 0
