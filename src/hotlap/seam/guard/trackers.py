"""Environment for a trial's processes, so that trackers do not report trials as runs."""


def tracker_environment(scratch: str) -> dict[str, str]:
    """Variables to add to a trial's environment."""
    return {
        # W&B: `init` gives a run that does nothing; no login, no network, no ./wandb.
        "WANDB_MODE": "disabled",
        "WANDB_SILENT": "true",
        # MLflow: a store of its own, or `mlflow.db` and ./mlruns fill up with trials.
        "MLFLOW_TRACKING_URI": f"file://{scratch}/mlruns",
        "MLFLOW_REGISTRY_URI": f"file://{scratch}/mlruns",
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
