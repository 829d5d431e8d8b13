"""The options of an Engine, as one frozen record."""

from dataclasses import dataclass, fields
from pathlib import Path

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
ALIASES = {
    **dict.fromkeys(("32", "32-true", "float32", "no"), "fp32"),
    **dict.fromkeys(("bf16-mixed", "bfloat16"), "bf16"),
    **dict.fromkeys(("16", "16-mixed", "fp16-mixed", "float16"), "fp16"),
}
"""How PyTorch, Lightning and Accelerate spell them."""


@dataclass(frozen=True)
class EngineConfig:
    """How to make a step. The defaults are a plain float32 loop.

    Args:
        device: where model and batches go; empty: where the model is.
        precision: `fp32`, `tf32`, `bf16` (autocast) or `fp16` (autocast with a GradScaler); other
            libraries' names for these, such as `bf16-mixed` and `float16`, are taken as well.
        channels_last: store images and filters in NHWC order.
        compile: mode of torch.compile, such as `default`; empty: not compiled.
        prefetch: copy the next batch to a CUDA device while the present one computes.
        accumulate: micro-batches to one optimizer step.
        clip: largest norm of all gradients together; 0: not clipped.
        recompute: names of blocks to recompute in backward, with `*` as in file names.
        recompute_every: recompute every k-th of the repeated blocks; 1 all, 0 none.
        memory_budget: share of the activations that compiled code may keep (0 to 1); 1: all.
        cudnn_benchmark: let cuDNN time its convolutions; for inputs of one size.
        seed: seeds Python, NumPy and torch when the engine is made; None: they are left alone.
        deterministic: deterministic kernels only; an operation without one raises.
        folder: where checkpoints go; empty: none are written.
        save_every: optimizer steps from one checkpoint to the next; 0: only when asked to.
        keep: how many checkpoints to keep.
        log_every: optimizer steps from one word to the loggers to the next.
        others: techniques of a recipe that are not the engine's business (`from_toml` fills it).

    Raises:
        ValueError: a value that cannot be.
    """

    device: str = ""
    precision: str = "fp32"
    channels_last: bool = False
    compile: str = ""
    prefetch: bool = True
    accumulate: int = 1
    clip: float = 0.0
    recompute: tuple[str, ...] = ()
    recompute_every: int = 0
    memory_budget: float = 1.0
    cudnn_benchmark: bool = False
    seed: int | None = None
    deterministic: bool = False
    folder: str = ""
    save_every: int = 0
    keep: int = 3
    log_every: int = 20
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", ALIASES.get(self.precision, self.precision))
        for wrong, why in _mistakes(self):
            if wrong:
                raise ValueError(f"EngineConfig: {why}")

    @staticmethod
    def from_toml(path: str | Path, **changes: object) -> "EngineConfig":
        """Read the techniques of a recipe (`hotlap.toml`) and its `[engine]` table, if any.

        The `[engine]` table holds fields of this record; `changes` come last. Techniques that the
        engine does not do (loader workers, a fused optimizer) are named in `others`.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: not TOML, or a field or value that cannot be.
        """
        from hotlap.engine.recipe import settings

        found = settings(Path(path)) | changes
        unknown = sorted(set(found) - {field.name for field in fields(EngineConfig)})
        if unknown:
            raise ValueError(f"{path}: the engine has no setting {', '.join(unknown)}")
        return EngineConfig(**found)


def _mistakes(c: EngineConfig) -> list[tuple[bool, str]]:
    return [
        (c.precision not in PRECISIONS,
         f"precision={c.precision!r} is none of {', '.join(PRECISIONS)}"),
        (c.accumulate < 1, f"accumulate={c.accumulate}: at least 1 micro-batch makes a step"),
        (c.clip < 0, f"clip={c.clip}: the largest norm cannot be negative; 0 does not clip"),
        (c.recompute_every < 0, f"recompute_every={c.recompute_every}: cannot be negative"),
        (bool(c.recompute) and c.recompute_every > 0,
         "recompute names blocks and recompute_every counts them; give one of the two"),
        (not 0 <= c.memory_budget <= 1, f"memory_budget={c.memory_budget}: from 0 to 1"),
        (c.memory_budget < 1 and not c.compile,
         'memory_budget works on compiled code only; give compile="default" as well'),
        (c.save_every < 0 or c.keep < 1, "save_every cannot be negative, and keep at least 1"),
        (c.save_every > 0 and not c.folder, "save_every needs a folder for the checkpoints"),
        (c.log_every < 1, f"log_every={c.log_every}: at least 1"),
    ]  # fmt: skip
