"""Each trial meets at a port of its own; what names a port of another machine keeps it."""

import inspect
import socket
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace

import pytest
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous.api import RendezvousHandlerRegistry

from hotlap.core.spec import Mode, Spec
from hotlap.seam import patch
from hotlap.seam.rendezvous import Ports, ports_of_its_own
from hotlap.seam.session import Session

SHORT = timedelta(seconds=5)


@pytest.fixture
def taken():
    """A port at which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def serve(port, *args, **more):
    return TCPStore("127.0.0.1", port, *args, is_master=True, wait_for_workers=False, **more)


def meet(server, client):
    server.set("key", "value")
    assert client.get("key") == b"value"


def test_all_processes_of_a_trial_agree_and_trials_differ(tmp_path, taken):
    (tmp_path / "other").mkdir()
    one, same, other = (Ports(str(folder)) for folder in (tmp_path, tmp_path, tmp_path / "other"))
    with closing_all(one, same, other):
        found = one.of(taken)
        assert found == same.of(taken) == one.of(found) != taken
        assert other.of(taken) not in {found, taken}


def closing_all(*ports):
    return closing(SimpleNamespace(close=lambda: [one.release() for one in ports]))


def test_a_chosen_port_is_given_to_nobody_else_until_it_is_released(tmp_path, taken):
    ports = Ports(str(tmp_path))
    chosen = ports.of(taken)
    with pytest.raises(OSError, match="in use"), socket.socket() as other:
        other.bind(("", chosen))
    ports.release()
    with socket.socket() as other:
        other.bind(("", chosen))


def test_who_asks_second_takes_what_the_first_has_chosen_meanwhile(tmp_path, taken, monkeypatch):
    one, other = Ports(str(tmp_path)), Ports(str(tmp_path))
    reserve, found = Ports._reserve, []

    def slowly(self):
        if self is one:
            found.append(other.of(taken))
        return reserve(self)

    monkeypatch.setattr(Ports, "_reserve", slowly)
    with closing_all(one, other):
        assert [one.of(taken)] == found


@pytest.mark.parametrize("libuv", [True, False])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_store_listens_elsewhere_and_its_clients_find_it(tmp_path, taken, name, libuv):
    with ports_of_its_own(str(tmp_path)):
        server = serve(taken, use_libuv=libuv)
        assert server.port != taken
        meet(server, TCPStore(name, taken, None, False, SHORT))
        meet(server, TCPStore(host_name=name, port=taken, timeout=SHORT))
        meet(server, TCPStore(name, server.port, timeout=SHORT))


def test_the_class_stays_what_it_was(tmp_path, taken):
    plain = TCPStore.__init__

    class Store(TCPStore):
        def __init__(self, port):
            super().__init__("127.0.0.1", port, is_master=True, wait_for_workers=False)

    with ports_of_its_own(str(tmp_path)):
        assert isinstance(Store(taken), TCPStore)
        assert type(serve(taken, multi_tenant=True)) is TCPStore
        assert inspect.unwrap(TCPStore.__init__) == plain
        with pytest.raises(TypeError, match="incompatible constructor arguments"):
            TCPStore()
    assert TCPStore.__init__ == plain
    with pytest.raises(RuntimeError, match="EADDRINUSE"):
        serve(taken)


def test_a_port_that_the_system_chose_stays(tmp_path):
    with ports_of_its_own(str(tmp_path)):
        server = serve(0)
        meet(server, TCPStore("127.0.0.1", server.port, timeout=SHORT))


def test_a_port_at_which_the_program_listens_itself_stays(tmp_path):
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    with ports_of_its_own(str(tmp_path)):
        server = serve(port, master_listen_fd=listening.detach())
        assert server.port == port
        meet(server, TCPStore("127.0.0.1", port, timeout=SHORT))


@pytest.mark.parametrize("name", ["192.0.2.1", "no.such.name.invalid"])
def test_a_store_on_another_machine_keeps_its_port(tmp_path, name):
    with ports_of_its_own(str(tmp_path)), pytest.raises(RuntimeError):
        TCPStore(name, 29500, timeout=timedelta(milliseconds=100))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("nodes", "kept"), [(1, False), (2, True)])
@pytest.mark.parametrize("ending", [":{}", ""])
def test_several_nodes_keep_their_port(tmp_path, nodes, kept, ending):
    port = 29612 if ending else 29400  # the default of torch's c10d backend
    params = SimpleNamespace(
        max_nodes=nodes, endpoint=f"localhost{ending.format(port)}", backend="made"
    )
    registry = RendezvousHandlerRegistry()
    registry.register("made", lambda _: SimpleNamespace(get_backend=lambda: "made"))
    with ports_of_its_own(str(tmp_path)):
        registry.create_handler(params)
    ports = Ports(str(tmp_path))
    with closing_all(ports):
        assert (ports.of(port) == port) is kept


@pytest.mark.parametrize("mode", [Mode.RUN, Mode.RACE, Mode.BATCH, Mode.PROFILE])
def test_only_what_runs_beside_another_meets_elsewhere(mode):
    here = Session(Spec("test", mode, ""))
    here.enter()
    try:
        moved = any(one.owner is TCPStore for one in patch.patches)
        assert moved is (mode in {Mode.RACE, Mode.BATCH})
    finally:
        here.undo.close()
