"""Trackers are off whatever a script passes: a server on this machine must hear nothing."""

import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hotlap.core.spec import Mode
from hotlap.trial.foreground import run_foreground
from hotlap.trial.launch import Setting

# Each insists, by argument, on the server at {url}.
SCRIPTS = {
    "wandb": """
import wandb
wandb.login(key="0" * 40, host="{url}")
run = wandb.init(project="p", mode="online", settings=wandb.Settings(base_url="{url}"))
run.log({{"loss": 1.0}}); wandb.log({{"loss": 2.0}}); run.finish()
""",
    "mlflow": """
import mlflow
mlflow.set_tracking_uri("{url}")
mlflow.set_experiment("e")
with mlflow.start_run():
    mlflow.log_metric("loss", 1.0)
client = mlflow.MlflowClient(tracking_uri="{url}")
client.create_experiment("second")
""",
    "comet_ml": """
import comet_ml
experiment = comet_ml.Experiment(api_key="k" * 25, project_name="p", disabled=False)
experiment.log_metric("loss", 1.0); experiment.end()
""",
    "neptune": """
import base64, json, neptune
about = json.dumps(dict(api_address="{url}", api_url="{url}", api_key="k"))
token = base64.b64encode(about.encode()).decode()
run = neptune.init_run(project="a/b", api_token=token, mode="async")
run["loss"].append(1.0); run.stop()
""",
    "clearml": """
import clearml
clearml.Task.set_credentials(
    api_host="{url}", web_host="{url}", files_host="{url}", key="k", secret="s"
)
task = clearml.Task.init("p", "t")
task.get_logger().report_scalar("loss", "train", 1.0, 0); task.close()
""",
    "aim": """
import aim
run = aim.Run(repo="aim://{address}")
run.track(1.0, name="loss")
""",
    "trackio": """
import trackio
trackio.init(project="p", space_id="me/space")
trackio.log({{"loss": 1.0}}); trackio.finish()
""",
    "swanlab": """
import swanlab
swanlab.login(api_key="k", host="{url}")
swanlab.init(project="p", mode="cloud")
swanlab.log({{"loss": 1.0}}); swanlab.finish()
""",
    "tensorboard": """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("runs"); writer.add_scalar("loss", 1.0); writer.close()
""",
}
# The class of behaviour, where the packages are not installed: a client with its own arguments.
FAKE = """
import urllib.request

class Run:
    def __init__(self, project=None, *, mode="online", **_):
        self.mode = mode
        if mode == "online" or mode == "async":
            urllib.request.urlopen("{url}/run").read()

def init(project=None, entity=None, mode="online", settings=None):
    return Run(project, mode=mode)

def init_run(*, project=None, mode="async", **_):
    return Run(project, mode=mode)

def login(key=None, host=None):
    urllib.request.urlopen("{url}/login").read()
"""
FAKES = {
    "wandb": 'from wandb import *; login(); assert init("p", "e", "online").mode == "disabled"',
    "neptune": 'import neptune; assert neptune.init_run(mode="async").mode == "debug"',
    "swanlab": 'from swanlab import init; assert init(mode="online").mode == "disabled"',
}


class Server(ThreadingHTTPServer):
    heard: list[str]


class Handler(BaseHTTPRequestHandler):
    def hear(self) -> None:
        assert isinstance(self.server, Server)
        self.server.heard.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = do_PUT = hear  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Everything that speaks HTTP from here reaches it, other hosts by proxy."""
    found = Server(("127.0.0.1", 0), Handler)
    found.heard = []
    threading.Thread(target=found.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{found.server_port}"
    for name in ("WANDB_BASE_URL", "COMET_URL_OVERRIDE", "CLEARML_API_HOST", "http_proxy",
                 "https_proxy", "HTTPS_PROXY", "HTTP_PROXY"):  # fmt: skip
        monkeypatch.setenv(name, url)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("HF_ENDPOINT", url)
    yield found
    found.shutdown()


def trial(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text(script)
    log = folder / ".hotlap" / "log"
    log.parent.mkdir()
    setting = Setting(
        (sys.executable, "train.py"), Mode.PROFILE, scratch=log.parent / "scratch", output=log
    )
    code = run_foreground(setting, lambda _: False)
    said = log.read_text()
    assert code == 0, said[-2000:]
    return said


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_tracker_stays_silent(
    name: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    address = f"127.0.0.1:{server.server_port}"
    trial(tmp_path, SCRIPTS[name].format(url=f"http://{address}", address=address), monkeypatch)
    assert server.heard == []
    assert sorted(os.listdir(tmp_path)) == [".hotlap", "train.py"]  # noqa: PTH208


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_script_reports_by_itself(name: str, tmp_path: Path, server: Server) -> None:
    """So that the silence above is hotlap's doing."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    address = f"127.0.0.1:{server.server_port}"
    script = SCRIPTS[name].format(url=f"http://{address}", address=address)
    (tmp_path / "train.py").write_text(script)
    plain = subprocess.Popen(
        [sys.executable, "train.py"], cwd=tmp_path, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if server.heard or len(os.listdir(tmp_path)) > 1:  # noqa: PTH208
            break
        time.sleep(0.1)
    os.killpg(plain.pid, signal.SIGKILL)
    plain.wait()
    assert server.heard or len(os.listdir(tmp_path)) > 1  # noqa: PTH208


@pytest.mark.parametrize("name", FAKES)
def test_arguments_of_a_script_do_not_win(
    name: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / f"{name}.py").write_text(FAKE.format(url=url))
    trial(tmp_path, FAKES[name], monkeypatch)
    assert server.heard == []
