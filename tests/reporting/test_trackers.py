"""Documents in the local stores of experiment trackers, read back with their own readers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hotlap.cli.main import hotlap
from hotlap.reporting.trackers import metrics

RACE: dict[str, Any] = {
    "schema_version": 1,
    "hotlap": "0.1.0",
    "verb": "race",
    "arguments": [],
    "commands": [["python", "a.py"], ["python", "b.py"]],
    "estimate": {"ratio": 1.25, "low": 1.2, "high": 1.3, "pairs": 12, "level": 0.95},
    "verdict": "faster",
    "a_step": 0.05,
    "b_step": 0.04,
    "seconds_needed": None,
}
RATIO = "hotlap/race/B_over_A"


@pytest.fixture
def document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "race.json"
    path.write_text(json.dumps(RACE))
    return path


def export(document: Path, *words: str) -> str:
    result = CliRunner().invoke(hotlap, ["export", str(document), *words])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_figures_are_finite_and_named_without_spaces() -> None:
    found = metrics(RACE | {"wait": float("inf")})
    assert found[RATIO] == 1.25
    assert found["hotlap/race/a_step"] == 0.05
    assert not [name for name in found if " " in name or "wait" in name]


def test_tensorboard(document: Path, tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    said = export(document, "--to", "tensorboard", "--where", "logs/one")
    assert "tensorboard --logdir logs" in said
    found = reader.EventAccumulator(str(tmp_path / "logs" / "one")).Reload()
    assert found.Scalars(RATIO)[0].value == 1.25
    (text,) = found.Tensors("hotlap/race/text_summary")
    assert b"python a.py  --  python b.py" in text.tensor_proto.string_val[0]
    assert b"B is faster" in text.tensor_proto.string_val[0]


@pytest.mark.slow
def test_mlflow(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    mlflow.set_tracking_uri(store)
    said = export(document, "--to", "mlflow", "--where", "speed")
    written = re.search(r"written: run (\w+) at", said)
    assert written
    run = mlflow.get_run(written[1])
    assert run.data.metrics[RATIO] == 1.25
    assert run.data.tags["hotlap.headline"].startswith("B is faster")
    experiment = mlflow.get_experiment_by_name("speed")
    assert run.info.experiment_id == experiment.experiment_id


def test_wandb_offline(document: Path, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    store = tmp_path / "store"
    store.mkdir()
    words = ["export", str(document), "--to", "wandb", "--where", "speed"]
    own = {"WANDB_MODE": "offline", "WANDB_DIR": str(store), "WANDB_SILENT": "true"}
    subprocess.run([sys.executable, "-m", "hotlap", *words], env=os.environ | own, check=True,
                   timeout=200)  # fmt: skip
    (written,) = store.rglob("*.wandb")
    assert RATIO.encode() in written.read_bytes()
    assert b"B is faster" in written.read_bytes()


def test_what_cannot_be_exported_is_said(document: Path, tmp_path: Path) -> None:
    from hotlap.core.errors import UsageError

    runner = CliRunner()
    result = runner.invoke(hotlap, ["export", "--to", "wandbb", str(document)])
    assert "Did you mean 'wandb'" in result.output
    (tmp_path / "none.json").write_text(json.dumps({"verb": "doctor"}))
    result = runner.invoke(hotlap, ["export", "--to", "tensorboard", str(tmp_path / "none.json")])
    assert isinstance(result.exception, UsageError)
    assert "no figure" in str(result.exception)


def test_a_tracker_that_is_not_installed_is_named(
    document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    result = CliRunner().invoke(hotlap, ["export", "--to", "mlflow", str(document)])
    assert "mlflow is not installed" in str(result.exception)
