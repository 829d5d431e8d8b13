"""What training steps write: checkpoints, flushed files, logs."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, every_step, in_steps, meaning
from hotlap.source.module import Source
from hotlap.source.tree import FunctionNode, receiver, text

_SAVES = ("torch.save", "torch.distributed.checkpoint.save", "safetensors.torch.save_file",
          "safetensors.torch.save_model", "torch.distributed.checkpoint.save_state_dict",
          "torch.distributed.checkpoint.state_dict_saver.save")  # fmt: skip
_SAVE_METHODS = ("save_pretrained", "save_state", "save_checkpoint")
_SYNCS = ("os.fsync", "os.sync", "os.fdatasync")
_LOGGERS = ("wandb.log", "mlflow.log_metric", "mlflow.log_metrics", "neptune.log_metric",
            "logging.info", "logging.warning")  # fmt: skip
_TRACKERS = frozenset({"wandb.init", "neptune.init_run", "comet_ml.Experiment", "swanlab.init"})
_WRITER = re.compile(r"(?:^|[._])(?:tb|tensorboard|summary)?_?writer$|(?:^|[._])tb$")
_LOGGER = re.compile(r"(?:^|[._])(?:logger|log|logging)$")
_SCALARS = ("add_scalar", "add_scalars", "add_histogram", "add_image", "add_images")


def checkpoint_in_step(source: Source, _: Technique) -> Iterator[ast.AST]:
    """A checkpoint that steps wait for, at each of them or every few."""
    steps = in_steps(source)
    calls = source.calls(*_SAVES)
    for name in _SAVE_METHODS:
        for call in source.tree.methods.get(name, []):
            local = source.values.local(call) is not None
            if not local and source.names.of(call.func) not in _SAVES:
                calls.append(call)
    yield from (call for call in calls if call in steps and not _ends(source, call))


def fsync_in_training(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Steps that wait until a disk has written."""
    steps = in_steps(source)
    yield from (call for call in source.calls(*_SYNCS) if call in steps)


def logging_in_step(source: Source, _: Technique) -> Iterator[ast.AST]:
    """Logs written, or files opened or flushed, at each step."""
    calls = source.calls(*_LOGGERS)
    for call in source.calls("open"):
        mode = argument(call, "mode", 1)
        written = isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax")
        calls += [call] if written else []
    calls += [c for c in source.tree.methods.get("log", []) if _tracks(source, c)]
    for name in ("info", "warning", "flush", *_SCALARS):
        calls += [c for c in source.tree.methods.get(name, []) if _logs(c, name)]
    yield from (call for call in calls if every_step(source, call))


def _tracks(source: Source, call: ast.Call) -> bool:
    """`run.log(...)` of what `wandb.init()` returned."""
    owner = receiver(call)
    made = meaning(source, owner) if owner is not None else None
    return isinstance(made, ast.Call) and source.names.of(made.func) in _TRACKERS


def _logs(call: ast.Call, name: str) -> bool:
    owner = receiver(call)
    written = text(owner) if owner is not None else ""
    if name == "flush":
        return bool(written)
    if name in _SCALARS:
        return bool(_WRITER.search(written)) or name == "add_scalar"
    return bool(_LOGGER.search(written)) and written != "logging"


def _ends(source: Source, call: ast.Call) -> bool:
    """Whether training stops after it: the block raises, exits or leaves the loop."""
    for holder, field in source.tree.blocks(call):
        if isinstance(holder, ast.For | ast.While | FunctionNode):
            return False
        if isinstance(holder, ast.ExceptHandler):
            return True
        last = getattr(holder, field)[-1]
        exits = isinstance(last, ast.Expr) and "exit" in ast.unparse(last.value)
        if isinstance(last, ast.Raise | ast.Break | ast.Return) or exits:
            return True
    return False
