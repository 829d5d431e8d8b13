"""The vocabulary of a technique's record: the facts a profile gathers and the phases of a step.

A record that names an unknown fact or phase is refused when the registry loads it, because a
technique whose `needs` or `symptom` can never be met would never be raced and nobody would notice.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from hotlap.core.errors import UsageError, did_you_mean

FACTS: Mapping[str, str] = MappingProxyType(
    {
        "alloc_conf": "the environment configures the CUDA allocator",
        "anomaly": "anomaly detection is on",
        "asks_each_step": "each step asks a model in training mode, without gradients",
        "autocast_on": "the forward pass runs under autocast",
        "autograd_profiler": "the autograd profiler is on",
        "channels_last_on": "the model's 4-D weights are channels last",
        "compiled": "the model or a part of it is compiled",
        "compiler": "torch.compile finds the compiler it needs",
        "conv4d": "the model has 4-D weights",
        "calls_cross_entropy": "the step computes a cross-entropy of large logits",
        "calls_einsum": "the step calls torch.einsum",
        "calls_gelu": "the step calls torch.nn.functional.gelu",
        "calls_norm": "the step calls torch.nn.functional's layer_norm or rms_norm",
        "calls_softmax": "the step calls torch.nn.functional.softmax",
        "cuda": "the model is on a CUDA device",
        "cudnn_benchmark_on": "cuDNN's autotuner is on",
        "cudnn_deterministic": "cuDNN is restricted to deterministic algorithms",
        "dataset_by_epoch": "a dataset is changed by its set_epoch",
        "ddp": "a DistributedDataParallel model trains",
        "ddp_copies_gradients": "gradients are copied into DDP's buckets",
        "ddp_hooked": "a DDP communication hook is registered",
        "ddp_many_gradients": "the gradients fill more than DDP's first bucket",
        "ddp_no_sync": "no_sync is used",
        "ddp_not_static": "static_graph is off",
        "ddp_reducing": "the share of a backward pass that only waits for gradients is known",
        "ddp_searches_unused": "find_unused_parameters is on",
        "ddp_sends_buffers": "DDP sends the model's buffers before each forward pass",
        "ddp_unused": "a parameter took no part in the last step",
        "decodes_uncached": "a text is generated token by token without a KV cache",
        "fed_by_workers": "the training's loader has workers",
        "generates_uncached": "the evaluation generates a text token by token without a KV cache",
        "distributed": "a process group is initialised",
        "contended_threads": "torch's threads wait for a core, and spin while they wait for others",
        "crowded_workers": "a loader has more workers than the machine has cores",
        "dense_rows": "most of the gradients are rows of embedding tables that no step looked up",
        "draws": "the dataset or collate function draws random numbers",
        "eval_trained": "a model is evaluated in training mode",
        "eval_with_grad": "an evaluation records a graph",
        "fast_fp8": "float8 matrix products have hardware of their own",
        "fast_half": "16-bit matrix products have hardware of their own",
        "fast_int8": "int8 matrix products on a GPU can train",
        "float32_model": "the model's parameters are float32",
        "float64_copies": "tensors are converted to float64",
        "float64_model": "the model has float64 parameters",
        "fp32_matmul_full": "float32 matrix products use full precision",
        "fragmented": "much more CUDA memory is reserved than allocated at the peak",
        "h2d_blocking": "host-to-device copies wait for the device",
        "in_memory": "the samples are tensors or arrays in RAM",
        "inference": "the program does not train",
        "linear_layers": "the model has nn.Linear layers",
        "loader_not_persistent": "a loader does not keep its workers from one epoch to the next",
        "loader_pinned": "a loader pins its batches",
        "loader_rebuilt": "a loader takes the place of an equal one that was read before",
        "loader_serial": "the training's loader has no workers",
        "loader_workers": "a loader has workers",
        "loaders": "a DataLoader is iterated",
        "long_kernels": "convolutions whose kernels are long take part of a step",
        "map_style": "a loader reads a map-style dataset",
        "model": "a module with parameters is called",
        "one_thread_fits": "each process has one thread, and two would be more than the cores",
        "optimizer_unfused": "an optimizer does not use its fused form",
        "page_faults": "page faults of buffers that malloc returned take part of a step",
        "pageable": "host-to-device copies start from pageable memory",
        "pinned": "host-to-device copies start from pinned memory",
        "row_lookups": "rows of a matrix are picked by a tensor of indices, for part of a step",
        "scaler_on": "an enabled GradScaler scales the loss",
        "several_ranks": "several ranks train together",
        "slow_half": "the model computes in 16 bits, which this processor does slowly",
        "slow_sampler": "the wait for data is spent in a sampler more than on any other line",
        "sync_calls": "the step calls what waits for the device",
        "tensor_from_numpy": "torch.tensor copies NumPy arrays",
        "threads_waited": "how long torch's threads waited for a core is known",
        "two_batches_ahead": "a loader's workers keep two batches ready, as torch does by itself",
        "unused_gradients": "gradients are computed that no optimizer uses",
        "workers_restarted": "workers were started anew while profiled, by a loader or a new one",
        "zero_rate": "a group of parameters is optimized with a learning rate of 0",
        "zero_grad_false": "zero_grad is called with set_to_none=False",
    }
)
"""Every fact that a `Need` may ask for or a technique may grant, and what it says when true."""

STEP_PHASES = (
    "data",
    "loader",
    "copy",
    "forward",
    "backward",
    "optimizer",
    "evaluation",
    "evaluation_data",
    "saving",
    "other",
)
"""The phases of a step, in the order of its timeline's columns; each moment lies in one."""

PHASES = frozenset({*STEP_PHASES, "buffers", "faults", "lookups", "long_kernels"})
"""The phases as the profile reports them. `faults` is the time that page faults take, wherever
they happen, `lookups` what picks rows by a tensor of indices, with its backward pass,
`long_kernels` convolutions that take fewer operations by FFT, with theirs, `buffers` the part of
forward in which DDP sends the model's buffers."""


def check_vocabulary(record: str, facts: Iterable[str], phases: Iterable[str]) -> None:
    """Refuse a record that names what no profile reports.

    Raises:
        UsageError: names the record, the unknown word and the closest known one.
    """
    for kind, words, known in (("fact", facts, FACTS), ("phase", phases, PHASES)):
        for word in words:
            if word not in known:
                raise UsageError(
                    f"technique {record!r} names the {kind} {word!r}, which no profile reports",
                    did_you_mean(word, known, otherwise="see hotlap/core/facts.py"),
                )
