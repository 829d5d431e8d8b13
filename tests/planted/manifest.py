"""The planted workloads: which script, what is wrong in it, and on which line.

The line is where the script carries the comment `# planted`. `ids` are the techniques or advices
any of which names the cause, `call` what is running on that line or stands there. It is the first
of the problems; with `option` it is no fault but worth a race, among so many first options. A
`twin` does the same work without the fault, for a check that the finding goes away.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
MARK = "# planted"


@dataclass(frozen=True)
class Planted:
    name: str
    script: str
    cause: str | None
    twin: str | None = None
    ids: tuple[str, ...] = ()
    call: str = ""
    option: int = 0

    @property
    def path(self) -> Path:
        return FOLDER / self.script

    @property
    def line(self) -> int | None:
        """The guilty line, counted from 1; None where nothing is planted."""
        lines = self.path.read_text(encoding="utf-8").splitlines()
        marked = [number for number, text in enumerate(lines, 1) if text.endswith(MARK)]
        if len(marked) > 1:
            raise ValueError(f"{self.script}: more than one line ends with `{MARK}`: {marked}")
        return marked[0] if marked else None


ANYWHERE = 99  # an option that costs no time that could be measured comes after those that do

PLANTED = [
    Planted("input_bound", "input_bound.py", "data", "input_bound_clean.py", ("loader_workers",)),
    Planted(
        "float64_copy",
        "float64_copy.py",
        "float64",
        "float64_copy_clean.py",
        ("float64_copies",),
        ".to(torch.float64)",
    ),
    Planted("compute_cnn", "compute_cnn.py", "compute", ids=("fused_pointwise",), option=2),
    Planted(
        "small_transformer", "small_transformer.py", "overhead", ids=("fused_pointwise",), option=2
    ),
    Planted(
        "eval_with_grad",
        "eval_with_grad.py",
        "evaluation",
        "eval_with_grad_clean.py",
        ("no_grad_eval",),
        "model(x)",
    ),
    Planted(
        "slow_decode",
        "slow_decode.py",
        "data",
        "decode_clean.py",
        ("loader_workers", "cached_dataset", "python_transforms"),
        "zlib.decompress(self.files[index])",
    ),
    Planted("print_item", "print_item.py", "reading", "loop_clean.py", ("host_sync",), ".item()"),
    Planted(
        "tensor_of_arrays",
        "tensor_of_arrays.py",
        "copying",
        "decode_clean.py",
        ("no_copy_from_numpy",),
        "torch.tensor(",
    ),
    Planted("hand_loops", "hand_loops.py", "loop", "loop_clean.py", ("foreach_loops",)),
    Planted(
        "running_loss",
        "running_loss.py",
        "memory",
        "loop_clean.py",
        ("retained_graph",),
        option=ANYWHERE,
    ),
    Planted(
        "outputs_kept",
        "outputs_kept.py",
        "memory",
        "loop_clean.py",
        ("retained_graph",),
        option=ANYWHERE,
    ),
    Planted(
        "checkpoint_often",
        "checkpoint_often.py",
        "saving",
        "loop_clean.py",
        ("async_checkpoint",),
        "torch.save(",
    ),
    Planted("sample_loop", "sample_loop.py", "loop", "clean.py", ("batched_forward",)),
    Planted(
        "raw_inputs",
        "raw_inputs.py",
        "inputs",
        "loop_clean.py",
        ("input_normalised",),
        option=ANYWHERE,
    ),
    Planted(
        "anomaly_on",
        "anomaly_on.py",
        "debugging",
        "loop_clean.py",
        ("debug_off",),
        "set_detect_anomaly(True)",
    ),
    Planted(
        "train_mode_eval",
        "train_mode_eval.py",
        "evaluation",
        ids=("no_grad_eval",),
        call="model(x)",
    ),
    Planted(
        "fsync_in_step",
        "fsync_in_step.py",
        "writing",
        ids=("async_checkpoint", "blocking_call"),
        call="os.fsync(log.fileno())",
    ),
    Planted(
        "workers_respawned",
        "workers_respawned.py",
        "data",
        ids=("persistent_workers", "loader_reuse"),
    ),
    Planted("eval_helper", "eval_helper.py", "evaluation", ids=("no_grad_eval",), call="batch"),
    Planted(
        "eval_in_step",
        "eval_in_step.py",
        "evaluation",
        ids=("no_grad_eval",),
        call="model(features, adj)",
    ),
    Planted(
        "update_by_hand",
        "update_by_hand.py",
        "loop",
        ids=("foreach_loops",),
        call="model.parameters()",
    ),
    Planted(
        "logger_fsync",
        "logger_fsync.py",
        "writing",
        ids=("async_checkpoint", "blocking_call"),
        call="os.fsync(self.file)",
    ),
    Planted(
        "text_parsed",
        "text_parsed.py",
        "data",
        ids=("loader_workers", "cached_dataset", "python_transforms"),
        call="re.findall(",
    ),
    Planted(
        "collated_arrays",
        "collated_arrays.py",
        "copying",
        ids=("no_copy_from_numpy",),
        call="torch.FloatTensor(signals)",
    ),
    Planted(
        "mask_in_forward",
        "mask_in_forward.py",
        "copying",
        ids=("create_on_device",),
        call="np.triu(",
    ),
    Planted(
        "graph",
        "graph.py",
        "compute",
        ids=("loop_invariants",),
        call="torch.diag(",
    ),
    Planted(
        "embedding_table",
        "embedding_table.py",
        "optimizer",
        ids=("sparse_embeddings",),
        call="nn.Embedding(users, width)",
    ),
    Planted(
        "loader_in_method",
        "loader_in_method.py",
        "data",
        ids=("persistent_workers", "loader_reuse"),
        call="self.get_loader()",
    ),
    Planted(
        "rollout", "rollout.py", "environment", ids=("environment_step",), call="env.step(action)"
    ),
    Planted("generation", "generation.py", "evaluation", ids=("kv_cache",), call="model(text)"),
    Planted("functional", "functional.py", "loop", ids=("foreach_loops",), call="grads.items()"),
    Planted(
        "slow_metric",
        "slow_metric.py",
        "reading",
        ids=("host_sync", "python_in_step"),
        call=".item()",
    ),
    Planted("clean", "clean.py", None),
    Planted("loop_clean", "loop_clean.py", None),
    Planted("decode_clean", "decode_clean.py", None),
]
