"""Candidate values that depend on the machine, by the name a `Choice` gives."""

from hotlap.core.machine import Machine


def worker_counts(machine: Machine) -> tuple[int, ...]:
    """Loader workers worth racing: powers of two up to the usable cores."""
    counts = [1 << k for k in range(1, 6) if 1 << k <= machine.logical_cores]
    return tuple(counts) or (1,)


def fewer_workers(machine: Machine) -> tuple[int, ...]:
    """Loader workers worth racing where there are more than cores: all cores, and half of them."""
    cores = machine.logical_cores
    return tuple(sorted({cores, max(1, cores // 2)}))


def thread_counts(machine: Machine) -> tuple[int, ...]:
    """Intra-op threads worth racing: one, half the cores, all physical and all logical cores."""
    cores = machine.logical_cores
    return tuple(sorted({1, max(1, cores // 2), machine.physical_cores, cores}))


def autocast_dtypes(machine: Machine) -> tuple[str, ...]:
    """Low-precision types worth racing: float16 and its loss scaling only on a GPU."""
    return ("bfloat16", "float16") if machine.gpus else ("bfloat16",)


def compile_modes(machine: Machine) -> tuple[str, ...]:
    """Modes of torch.compile worth racing: autotuning pays only on a GPU."""
    return ("default", "max-autotune-no-cudagraphs") if machine.gpus else ("default",)


LARGEST = 4096
"""Workers, threads or megabytes above which a value is a slip of the pen."""
NAMES = {
    "autocast_dtypes": ("bfloat16", "float16"),
    "compile_modes": ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
}
"""The names that are possible on some machine, by the function that gives this machine's."""
