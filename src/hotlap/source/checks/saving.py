"""What training steps write: checkpoints, flushed files, logs."""

import ast
import re
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.checks.context import argument, branches, every_step, in_steps, meaning, of_each
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
_MODULES = frozenset({"self", "pl_module", "module"})
_HOOKS = frozenset({"training_step", "on_before_backward", "on_after_backward",
                    "on_before_optimizer_step", "optimizer_step", "on_before_zero_grad",
                    "on_train_batch_start", "on_train_batch_end"})  # fmt: skip
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
    for call in _logged_by_trainers(source):
        if _in_hook(source, call) or every_step(source, call):
            yield call
    for name in ("info", "warning", "flush", *_SCALARS):
        calls += [c for c in source.tree.methods.get(name, []) if _logs(c, name)]
    yield from (call for call in calls if every_step(source, call))


def _logged_by_trainers(source: Source) -> Iterator[ast.Call]:
    """`self.log_dict(norms)`, and `self.log(...)` for each parameter, of a LightningModule.

    A few numbers that are written out cost next to nothing.
    """
    for call in source.tree.methods.get("log_dict", []):
        if call.args and not isinstance(call.args[0], ast.Dict):
            yield call
    for call in source.tree.methods.get("log", []):
        named = len(call.args) > 1 and isinstance(call.args[0], ast.JoinedStr | ast.BinOp)
        of_module = text(receiver(call) or call) in _MODULES
        if (named or of_module) and any(source.tree.loops(call)):
            yield call


def _in_hook(source: Source, call: ast.Call) -> bool:
    """Whether a trainer runs a call at each step."""
    function = source.tree.function(call)
    hook = function is not None and function.name in _HOOKS
    return hook and all(of_each(source, branch) for branch in branches(source, call))


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
