"""Torch's own warnings that tell of time or memory: which technique each belongs to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hotlap.core.protocol import ShownWarning


@dataclass(frozen=True)
class Known:
    """A warning: what it begins like, the finding's id, what it says, the remedy, the technique.

    `phases` of a step are what it can cost, where that is known.
    """

    pattern: str
    id: str
    says: str
    remedy: str
    technique: str = ""
    phases: tuple[str, ...] = ()


KNOWN = (
    Known(
        r"Creating a tensor from a list of numpy\.ndarrays is extremely slow",
        "tensor_of_arrays",
        "torch reads the arrays of a list number by number",
        "torch.from_numpy(np.stack(arrays))",
        "no_copy_from_numpy",
    ),
    Known(
        r"To copy construct from a tensor",
        "tensor_of_tensor",
        "torch.tensor copies a tensor by way of a new graph leaf",
        "tensor.detach().clone(), or nothing where no copy is needed",
    ),
    Known(
        r"Anomaly Detection has been enabled",
        "anomaly_on",
        "anomaly detection is on",
        "leave it on only while looking for a NaN",
        "debug_off",
    ),
    Known(
        r"This DataLoader will create \d+ worker processes",
        "too_many_workers",
        "more loader workers than the machine has cores",
        "at most one for each core; `hotlap tune --only fewer_workers CMD` races fewer",
        "fewer_workers",
        ("data",),
    ),
    Known(
        r"'pin_memory' argument is set as true but no accelerator is found",
        "pinned_for_nobody",
        "batches are pinned, but there is no device to copy them to",
        "pin_memory=torch.cuda.is_available()",
        "pinned_memory",
        ("data",),
    ),
    Known(
        r"Detected call of `lr_scheduler\.step\(\)` before `optimizer\.step\(\)`",
        "schedule_before_step",
        "the schedule steps before the optimizer, so its first value is never used",
        "call scheduler.step() after optimizer.step()",
    ),
    Known(
        r"`torch\.(cuda|cpu)\.amp\.[\w.]+\(.*\)` is deprecated",
        "old_amp",
        "this form of mixed precision is deprecated",
        "torch.autocast(device) and torch.amp.GradScaler(device)",
        "mixed_precision",
    ),
    Known(
        r"TensorFloat32 tensor cores .* available but not enabled",
        "tf32_off",
        "float32 matrix products run without tensor cores",
        'torch.set_float32_matmul_precision("high")',
        "tf32",
    ),
    Known(
        r"RNN module weights are not part of single contiguous chunk of memory",
        "rnn_weights_apart",
        "the weights of the recurrent layer are copied together at every call",
        "call flatten_parameters() once after moving or copying the module",
    ),
    Known(
        r"find_unused_parameters=True was specified in DDP constructor, but did not find any",
        "unused_not_found",
        "DDP walks the whole graph in each step to find unused parameters, and there are none",
        "leave find_unused_parameters out",
        "ddp_unused_search",
    ),
    Known(
        r"Grad strides do not match bucket view strides",
        "grad_strides",
        "gradients are copied because their layout differs from DDP's buckets",
        "keep parameters and activations in one memory format",
    ),
    Known(
        r"(Memory efficient|Flash attention|CuDNN attention) kernel not used because",
        "slow_attention",
        "attention falls back to a slower kernel",
        "see the warning for the condition that is not met",
    ),
    Known(
        r"Was asked to gather along dimension 0, but all\s+input tensors were scalars",
        "data_parallel",
        "DataParallel gathers each replica's loss as a scalar",
        "DistributedDataParallel, one process a GPU",
        "ddp_not_dp",
    ),
    Known(
        r"The given NumPy array is not writable",
        "read_only_array",
        "a tensor shares memory with an array that must not be written to",
        "copy the array once where it is made writable: np.array(array)",
    ),
)


def known(warnings: list[ShownWarning]) -> Iterator[tuple[Known, str]]:
    """Each known warning among those that were shown, with its place (`file:line`, or empty)."""
    for warning in warnings:
        for entry in KNOWN:
            if re.match(entry.pattern, warning.text):
                yield entry, warning.place
