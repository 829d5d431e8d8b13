"""Trackers do not report trials as runs: by environment, and at the client where a script insists.

The environment reaches what a script leaves open. `wandb.init(mode="online")` or
`mlflow.set_tracking_uri(...)` override it, so these arguments are replaced once the tracker has
been imported.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType

from hotlap.seam.hook import when_imported

Arguments = Mapping[str, object]
_NEPTUNE = (
    "init_run", "init_model", "init_model_version", "init_project", "Run", "Model",
    "ModelVersion", "Project",
)  # fmt: skip


def _replaced(scratch: str) -> dict[str, dict[str, Arguments]]:
    """Module -> function or class -> the arguments that it gets whatever the script passes."""
    runs = f"file://{scratch}/mlruns"
    uris: dict[str, Arguments] = {
        "set_tracking_uri": {"uri": runs},
        "set_registry_uri": {"uri": runs},
        "MlflowClient": {"tracking_uri": runs, "registry_uri": runs},
    }
    comet = {"disabled": True}
    return {
        "wandb": {"init": {"mode": "disabled"}},
        "wandb.sdk": {"init": {"mode": "disabled"}},
        "mlflow": uris,
        "mlflow.tracking": uris,
        "comet_ml": {
            "Experiment": comet, "ExistingExperiment": comet, "CometExperiment": comet,
            "OfflineExperiment": comet, "ExistingOfflineExperiment": comet,
        },
        "neptune": {name: {"mode": "debug"} for name in _NEPTUNE},
        "aim": {"Run": {"repo": f"{scratch}/aim"}},
        "trackio": {"init": {"space_id": None, "dataset_id": None, "bucket_id": None}},
        "swanlab": {"init": {"mode": "disabled"}},
    }  # fmt: skip


_SKIPPED = {"wandb": ("login",), "swanlab": ("login",), "comet_ml": ("login",)}
"""Functions that ask a server for leave; a trial needs none."""


def switch_off(scratch: str) -> None:
    """Switch off every known tracker in this process, whatever its arguments, once it is imported.

    What a tracker must keep on disk goes below `scratch`.
    """
    for module, targets in _replaced(scratch).items():
        when_imported(module, functools.partial(_replace, targets=targets))
    for module, names in _SKIPPED.items():
        when_imported(module, functools.partial(_skip, names=names))
    when_imported("clearml", _clearml_offline)


def _replace(module: ModuleType, targets: Mapping[str, Arguments]) -> None:
    for name, arguments in targets.items():
        target = getattr(module, name, None)
        if isinstance(target, type):
            first = inspect.getattr_static(target, "__init__")
            if not hasattr(first, "hotlap_arguments"):
                setattr(target, "__init__", _with(first, arguments))  # noqa: B010
        elif callable(target) and not hasattr(target, "hotlap_arguments"):
            setattr(module, name, _with(target, arguments))


def _with(function: Callable[..., object], arguments: Arguments) -> Callable[..., object]:
    """The function with these arguments, as far as its version has them."""
    signature = inspect.signature(function)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    open_ended = inspect.Parameter.VAR_KEYWORD in kinds
    known = {k: v for k, v in arguments.items() if open_ended or k in signature.parameters}

    @functools.wraps(function)
    def replaced(*given: object, **named: object) -> object:
        bound = signature.bind_partial(*given)
        room = {k: v for k, v in known.items() if k not in bound.arguments}
        bound.arguments.update({k: v for k, v in known.items() if k in bound.arguments})
        return function(*bound.args, **{**named, **bound.kwargs, **room})

    replaced.hotlap_arguments = known  # type: ignore[attr-defined]
    return replaced


def _skip(module: ModuleType, names: tuple[str, ...]) -> None:
    for name in names:
        if hasattr(module, name):
            setattr(module, name, lambda *_, **__: True)


def _clearml_offline(module: ModuleType) -> None:
    with suppress(Exception):  # a version without it: the environment has switched it off
        module.Task.set_offline(offline_mode=True)


def tracker_environment(scratch: str) -> dict[str, str]:
    """Variables to add to a trial's environment."""
    return {
        # W&B: `init` gives a run that does nothing; no login, no network, no ./wandb.
        "WANDB_MODE": "disabled",
        "WANDB_SILENT": "true",
        # MLflow: a store of its own, or `mlflow.db` and ./mlruns fill up with trials.
        "MLFLOW_TRACKING_URI": f"file://{scratch}/mlruns",
        "MLFLOW_REGISTRY_URI": f"file://{scratch}/mlruns",
        # Its newer versions refuse a store of files unless they are told to take one.
        "MLFLOW_ALLOW_FILE_STORE": "true",
        # MLflow again: no telemetry of trials.
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # Comet: no experiment on the server.
        "COMET_MODE": "disabled",
        "COMET_AUTO_LOG_DISABLE": "1",
        # Neptune: calls are accepted and dropped.
        "NEPTUNE_MODE": "debug",
        "NEPTUNE_LOGGER_MODE": "disabled",
        # ClearML: tasks stay on this machine, in the scratch.
        "CLEARML_OFFLINE_MODE": "1",
        "CLEARML_CACHE_DIR": f"{scratch}/clearml",
        # Aim, SwanLab, Trackio: their stores lie in the working directory otherwise.
        "AIM_DEFAULT_REPO_PATH": f"{scratch}/aim",
        "SWANLAB_MODE": "disabled",
        "TRACKIO_DIR": f"{scratch}/trackio",
        # Hugging Face: no reports from trials.
        "HF_HUB_DISABLE_TELEMETRY": "1",
        # Python writes __pycache__ below `open`, where the guard does not reach. Moving it
        # (PYTHONPYCACHEPREFIX) would compile torch anew in each trial.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
