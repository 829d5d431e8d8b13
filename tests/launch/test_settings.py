"""The torchrun command: what was typed stays, what recovers is added, what is missing is told."""

import os
import socket
import sys
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from hotlap.cli.launch import launch
from hotlap.core.errors import UsageError
from hotlap.core.machine import Gpu
from hotlap.launch import settings
from hotlap.launch.address import interface, split, towards

START = (sys.executable, "-m", "torch.distributed.run")


def options(given: dict[str, object], *words: str) -> tuple[dict[str, str], tuple[str, ...]]:
    command = settings.command(given, words or ("train.py",))
    assert command[:3] == START
    told = list(takewhile(lambda word: word.startswith("--"), command[3:]))
    parts = [word.removeprefix("--").partition("=") for word in told]
    return {name: value for name, _, value in parts}, command[3 + len(told) :]


def test_one_node_meets_itself_on_a_free_port() -> None:
    found, words = options({"nproc_per_node": "2"}, "train.py", "--lr", "0.1")
    assert found.pop("rdzv-id")
    assert found == {
        "nproc-per-node": "2", "rdzv-backend": "c10d", "rdzv-endpoint": "127.0.0.1:0",
        "local-addr": "127.0.0.1", "max-restarts": "3",
    }  # fmt: skip
    assert words == ("train.py", "--lr", "0.1")


def test_the_scripts_own_arguments_stay_last_and_in_order() -> None:
    words = ("train.py", "--nnodes", "7", "--", "-x")
    assert settings.command({}, words)[-5:] == words


def test_several_nodes_need_a_place_to_meet() -> None:
    with pytest.raises(UsageError, match="2 nodes need a place to meet"):
        settings.command({"nnodes": "2"}, ("train.py",))
    with pytest.raises(UsageError, match="no script"):
        settings.command({}, ())
    with pytest.raises(UsageError, match="--max-restarts is 'often'"):
        settings.command({"max_restarts": "often"}, ("train.py",))
    with pytest.raises(UsageError, match="--nproc-per-node is 'x'"):
        settings.command({"nproc_per_node": "x"}, ("train.py",))
    with pytest.raises(UsageError, match="--nnodes is '2:'"):
        settings.command({"nnodes": "2:"}, ("train.py",))


@pytest.mark.parametrize(
    "given",
    [{"rdzv_endpoint": "127.0.0.1:29401"}, {"master_addr": "127.0.0.1", "master_port": "29401"}],
)
def test_the_first_node_keeps_the_store(given: dict[str, object]) -> None:
    for node, host in (("0", "is_host=1"), ("1", "is_host=0")):
        found, _ = options({"nnodes": "1:2", "node_rank": node, **given})
        assert found["rdzv-endpoint"] == "127.0.0.1:29401"
        assert found["rdzv-conf"] == host
        assert found["local-addr"] == "127.0.0.1"
        assert not found.keys() & {"node-rank", "master-addr", "master-port"}


def test_what_was_typed_wins() -> None:
    given = {
        "nnodes": "2", "rdzv_endpoint": "127.0.0.1:1", "rdzv_conf": "is_host=0,read_timeout=9",
        "node_rank": "0", "local_addr": "127.0.0.2", "max_restarts": "0", "rdzv_backend": "etcd",
    }  # fmt: skip
    found, _ = options(given)
    assert found["rdzv-conf"] == "is_host=0,read_timeout=9"
    assert (found["local-addr"], found["max-restarts"]) == ("127.0.0.2", "0")
    assert found["rdzv-backend"] == "etcd"
    static = {"rdzv_backend": "static", "nnodes": "2", "node_rank": "1", "master_addr": "a"}
    assert options(static)[0].items() >= {"node-rank": "1", "master-addr": "a"}.items()


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (("python", "-u", "train.py"), True),
        (("train.py",), False),
        (("missing.py",), False),
        (("no-such-program",), False),
    ],
)
def test_a_program_is_run_as_it_is_typed(words: tuple[str, ...], program: bool) -> None:
    assert ("no-python" in options({}, *words)[0]) is program


def test_modules_and_files_are_not_taken_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no-python" not in options({"module": True}, "ls")[0]
    (tmp_path / "ls").touch()
    assert "no-python" not in options({}, "ls")[0]


def test_the_environment_recovers_shares_the_cores_and_gives_way() -> None:
    found = settings.environment({"nproc_per_node": "2"}, {})
    assert found["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert found["OMP_NUM_THREADS"] == str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert found["GLOO_SOCKET_IFNAME"] == interface("127.0.0.1")
    kept = {"OMP_NUM_THREADS": "7", "GLOO_SOCKET_IFNAME": "eth9"}
    assert settings.environment({"nproc_per_node": "2"}, kept).items() >= kept.items()
    for number in ("1", "cpu"):
        assert "OMP_NUM_THREADS" not in settings.environment({"nproc_per_node": number}, {})


def test_a_rank_for_each_gpu_shares_the_cores_too(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = replace(settings.detect(), gpus=(Gpu("a", 1),) * 4)
    monkeypatch.setattr(settings, "detect", lambda: machine)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    assert settings.environment({"nproc_per_node": "gpu"}, {})["OMP_NUM_THREADS"] == "4"


def test_addresses() -> None:
    assert towards("127.0.0.1", 1) == "127.0.0.1"
    assert towards("no.such.host.invalid", 1) is None
    names = psutil.net_if_addrs()
    known = [e.address for e in names[interface("127.0.0.1")] if e.family is socket.AF_INET]
    assert "127.0.0.1" in known
    assert interface("203.0.113.9") is None
    assert split("host:29500") == ("host", 29500)
    assert split("[::1]:5") == ("::1", 5)
    assert split("host") == ("host", 0)


@pytest.mark.parametrize(
    "typed",
    [
        ["--nproc-per-node", "2", "--hang-timeout", "60", "t.py", "--nnodes", "3"],
        ["--nproc_per_node=2", "t.py", "--nnodes", "3"],
        ["--unheard-of=1", "--nproc-per-node=2", "t.py", "--nnodes", "3"],
    ],
)
def test_the_command_line_is_torchruns(
    typed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[str, ...]] = []

    def instead(command: tuple[str, ...], env: object, **_: object) -> int:
        seen.append(command)
        return 5

    monkeypatch.setattr("hotlap.launch.supervised_torchrun.launch", instead)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    assert CliRunner().invoke(launch, typed).exit_code == 5
    assert seen[0][-3:] == ("t.py", "--nnodes", "3")
    assert "--nproc-per-node=2" in seen[0]
