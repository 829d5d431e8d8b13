"""Seeds and deterministic kernels."""

import os
import random
from collections.abc import Callable

import torch


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy (if it is there) and torch on all devices.

    To repeat the initial weights as well, call it before the model is made.
    """
    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy as np
    except ModuleNotFoundError:
        return
    np.random.seed(seed % 2**32)


def choose_kernels(*, deterministic: bool, benchmark: bool) -> Callable[[], None]:
    """Choose the kind of kernels for the whole process; return what puts the choice back.

    cuBLAS is deterministic only with a fixed workspace, which it reads from the environment when
    CUDA starts: make the engine before the first CUDA call.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    if benchmark or deterministic:
        torch.backends.cudnn.benchmark = benchmark and not deterministic

    def undo() -> None:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]

    return undo
