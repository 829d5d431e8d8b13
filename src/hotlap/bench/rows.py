"""The rows of `hotlap bench`: what an article claims, and the workload that is measured for it."""

from dataclasses import dataclass
from enum import StrEnum

from hotlap.core.errors import UsageError

A0 = "'18 tips' article, 2022"
A1 = "NVIDIA tuning-guide walk-through"
A2 = "'six techniques' article"
A3 = "data-loading article"
A4 = "'17 tips' article"


class Measure(StrEnum):
    """What is compared: A's figure over B's, so that above 1 B is better."""

    TIME = "time"
    MEMORY = "memory"
    TIME_TO_TARGET = "time to target"


@dataclass(frozen=True)
class Row:
    """One claim. `claimed`: the least ratio that the article names, 1 where it names none.

    `workload`: a function of `hotlap.bench.workloads` that makes the two sides. `gpus`: how many
    CUDA devices it needs; a row that needs none runs on a CUDA device where there is one, unless
    `cpu_only`. `needs`: a module that must be installed.
    """

    id: str
    title: str
    claim: str
    source: str
    workload: str
    claimed: float = 1.0
    measure: Measure = Measure.TIME
    gpus: int = 0
    cpu_only: bool = False
    needs: str = ""


def _format(name: str, title: str, needs: str = "") -> Row:
    claim = "few large files are faster than many small ones; no figure"
    return Row(f"format_{name}", f"{title}, over a file for each sample", claim, A3,
               f"formats:{name}", cpu_only=True, needs=needs)  # fmt: skip


ROWS = (
    Row("loader_workers", "loader workers on MNIST-sized data, over none",
        "epoch 14.73 to 3.47 s with 8 cores, 10.01 to 9.43 s with 2", A1,
        "loading:loader_workers", 10.01 / 9.43),
    Row("pinned_memory", "pinned memory", "epoch 14.73 to 13.65 s", A1,
        "loading:pinned_memory", 14.73 / 13.65, gpus=1),
    Row("non_blocking", "non_blocking copies", "epoch 6.843 to 6.776 s", A1,
        "loading:non_blocking", 6.843 / 6.776, gpus=1),
    Row("prefetcher", "next batch copied on a side stream", "apex data_prefetcher; no figure", A3,
        "loading:prefetcher", gpus=1),
    Row("mixed_precision", "automatic mixed precision", "2x, up to 5.5x", A4,
        "training:mixed_precision", 2.0, gpus=1),
    Row("cudnn_benchmark", "cudnn.benchmark", "1.27x to 1.70x", A0,
        "training:cudnn_benchmark", 1.27, gpus=1),
    Row("channels_last", "channels_last", "8 % to 35 % with fp16 on a GPU", A0,
        "training:channels_last", 1.08),
    Row("gelu_scripted", "gelu at 2000 x 3000: TorchScript over eager",
        "1.2 to 0.4 ms on a GPU", A2, "operators:gelu_scripted", 3.0),
    Row("gelu_compiled", "gelu at 2000 x 3000: torch.compile over eager",
        "fused pointwise operators: up to 4x", A0, "operators:gelu_compiled", 4.0),
    Row("gelu_kernel", "gelu at 2000 x 3000: kernel over eager formula",
        "1.2 to 0.1 ms on a GPU", A2, "operators:gelu_kernel", 12.0),
    Row("zero_grad", "gradients set to None, over zeros", "modest; no figure", A4,
        "training:zero_grad"),
    Row("fused_optimizer", "fused Adam, over a loop", "5 % over plain Adam", A4,
        "training:fused_optimizer", 1.05),
    Row("multiple_of_8", "vocabulary 33712 (a multiple of 8), over 33708",
        "1.3x to 4x on a GPU", A0, "operators:multiple_of_8", 1.3),
    Row("checkpointing", "activation checkpointing: memory",
        "48 to 24 GB, with five other techniques", A2, "training:checkpointing", 2.0,
        Measure.MEMORY),
    Row("one_cycle", "one-cycle schedule, over a constant rate", "10 times fewer iterations", A4,
        "targets:one_cycle", 10.0, Measure.TIME_TO_TARGET),
    Row("batch_512", "batch 512 with one-cycle, over batch 64", "4x", A4,
        "targets:batch_512", 4.0, Measure.TIME_TO_TARGET),
    Row("ddp", "DistributedDataParallel, over DataParallel", "faster; no figure", A1,
        "parallel:ddp", gpus=2),
    _format("tar", "tar, in order"),
    _format("lmdb", "LMDB", "lmdb"),
    _format("hdf5", "HDF5", "h5py"),
    _format("tfrecord", "TFRecord, in order", "tfrecord"),
    _format("store", "hotlap's packed store"),
)  # fmt: skip


def chosen(only: tuple[str, ...]) -> tuple[Row, ...]:
    """The rows of these ids, all without any.

    Raises:
        UsageError: there is no such row.
    """
    known = {row.id: row for row in ROWS}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise UsageError(f"there is no row {unknown[0]!r}", f"the rows are {', '.join(known)}")
    return tuple(known[name] for name in only) or ROWS
