"""A document of hotlap in the store of an experiment tracker: figures, headline, the document."""

import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hotlap.core.errors import UsageError
from hotlap.reporting.compare_text import figures_of
from hotlap.reporting.html import headline, view

Document = Mapping[str, object]
FILE = "hotlap.json"
PROJECT = "hotlap"
RUNS = "runs/hotlap"


def metrics(document: Document) -> dict[str, float]:
    """The finite figures of a document by name: seconds, bytes, ratios and rates."""
    return {
        f"hotlap/{document['verb']}/{name.replace(',', '').replace(' ', '_')}": float(figure.value)
        for (name, _), figure in figures_of(document)
        if figure.value is not None and math.isfinite(figure.value)
    }


def export(document: Document, tracker: str, where: str = "") -> str:
    """Write the document to `tensorboard`, `mlflow` or `wandb`; what was written, for a message.

    `where` is TensorBoard's folder, MLflow's experiment or the W&B project. Where the tracker
    itself stores things is for its own settings: MLFLOW_TRACKING_URI, WANDB_MODE, WANDB_DIR.

    Raises:
        UsageError: the tracker's package is not installed, or the document holds no figure.
    """
    if not metrics(document):
        raise UsageError(f"a document of {document['verb']} holds no figure to export")
    try:
        return TRACKERS[tracker](document, where)
    except ImportError as error:
        package = (error.name or tracker).partition(".")[0]
        raise UsageError(f"{package} is not installed", f"pip install {tracker}") from None


def _name(document: Document) -> str:
    return f"hotlap {document['verb']}"


def _tags(document: Document) -> dict[str, str]:
    """What the figures are about."""
    found = {
        "hotlap.verb": str(document["verb"]),
        "hotlap.version": str(document.get("hotlap", "")),
        "hotlap.command": view(document).command,
        "hotlap.headline": headline(document),
    }
    return {key: value for key, value in found.items() if value}


def _tensorboard(document: Document, where: str) -> str:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    text = "\n\n".join(f"**{key}** {value}" for key, value in _tags(document).items())
    one = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    note = Summary.Value(
        tag=f"hotlap/{document['verb']}/text_summary",
        metadata=SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text")),
        tensor=TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=one),
    )
    values = [Summary.Value(tag=tag, simple_value=v) for tag, v in metrics(document).items()]
    folder = where or RUNS
    writer = EventFileWriter(folder)
    writer.add_event(Event(wall_time=time.time(), step=0, summary=Summary(value=[*values, note])))
    writer.close()
    return f"{folder} (tensorboard --logdir {Path(folder).parent})"


def _mlflow(document: Document, where: str) -> str:
    import mlflow

    mlflow.set_experiment(where or PROJECT)
    with mlflow.start_run(run_name=_name(document)) as run:
        mlflow.set_tags(_tags(document))
        mlflow.log_metrics(metrics(document))
        mlflow.log_text(json.dumps(document, indent=2), FILE)
    return f"run {run.info.run_id} at {mlflow.get_tracking_uri()}"


def _wandb(document: Document, where: str) -> str:
    import wandb

    run = wandb.init(
        project=where or PROJECT, name=_name(document), job_type="hotlap", config=_tags(document)
    )
    run.summary.update(metrics(document))
    Path(run.dir, FILE).write_text(json.dumps(document, indent=2), "utf-8")
    found = run.url or run.dir
    run.finish()
    return f"run {run.id} at {found}"


TRACKERS: Mapping[str, Callable[[Document, str], str]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
}
