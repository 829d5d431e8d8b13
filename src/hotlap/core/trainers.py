"""Options of trainers that do what a technique does: who has a trainer passes them instead."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hotlap.core.move import Choice, Keyword
from hotlap.core.registry import technique


@dataclass(frozen=True)
class ChoiceOf:
    """The value that a race chose for a technique's choice of that name."""

    name: str


@dataclass(frozen=True)
class Option:
    """`name=value`; `value` may be a technique's choice, by name. `over`: values it replaces.

    `only`: the choice and its value for which the option stands. `unless`: another option, and the
    value of it with which this one must not be passed. `on_cpu`: what has to be passed along where
    there is no GPU.
    """

    name: str
    value: object
    over: tuple[object, ...] = (None,)
    only: tuple[str, object] | None = None
    unless: tuple[str, object] | None = None
    on_cpu: tuple[str, object] | None = None


@dataclass(frozen=True)
class Trainer:
    """`called`: what takes the options; `module`: prefixes of the modules that run its steps.

    `own_loop`: the user writes the loop, so that an edit would find the calls in it as well.
    `every`: options by which it does something each N steps or epochs, by the advice to do it less
    often.
    """

    called: tuple[str, ...]
    module: tuple[str, ...]
    options: Mapping[str, tuple[Option, ...]]
    own_loop: bool = False
    every: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes(self) -> str:
        """The name of what takes the options."""
        return self.called[0].rpartition(".")[2]


NO_WORKERS = ("dataloader_num_workers", 0)
TRAINERS: Mapping[str, Trainer] = {
    "transformers": Trainer(
        ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments"),
        ("transformers.trainer",),
        {
            "loader_workers": (
                Option("dataloader_num_workers", ChoiceOf("num_workers"), (None, 0)),
            ),
            "prefetch_factor": (
                Option(
                    "dataloader_prefetch_factor",
                    ChoiceOf("prefetch_factor"),
                    (None, 2),
                    unless=NO_WORKERS,
                ),
            ),
            "persistent_workers": (
                Option("dataloader_persistent_workers", True, (None, False), unless=NO_WORKERS),
            ),
            "pinned_memory": (Option("dataloader_pin_memory", True, (None, False)),),
            "fused_optimizer": (Option("optim", "adamw_torch_fused", (None, "adamw_torch")),),
            "mixed_precision": (
                Option(
                    "bf16",
                    True,
                    (None, False),
                    ("dtype", "bfloat16"),
                    unless=("fp16", True),
                    on_cpu=("use_cpu", True),  # else transformers refuses bf16 without a GPU
                ),
                Option("fp16", True, (None, False), ("dtype", "float16"), ("bf16", True)),
            ),
            "fused_pointwise": (Option("torch_compile", True, (None, False)),),
            "activation_checkpoint": (Option("gradient_checkpointing", True, (None, False)),),
            "liger_kernels": (Option("use_liger_kernel", True, (None, False)),),
            "ddp_unused_search": (Option("ddp_find_unused_parameters", False, (None, True)),),
            "ddp_bucket_size": (
                Option("ddp_bucket_cap_mb", ChoiceOf("bucket_cap_mb"), (None, 25)),
            ),
        },
        every={"evaluation_often": "eval_steps", "rare_logging": "logging_steps"},
    ),
    "lightning": Trainer(
        ("lightning.Trainer", "lightning.pytorch.Trainer", "pytorch_lightning.Trainer"),
        ("lightning.pytorch.", "pytorch_lightning."),
        {
            "mixed_precision": (
                Option(
                    "precision", "bf16-mixed", (None, 32, "32", "32-true"), ("dtype", "bfloat16")
                ),
                Option("precision", "16-mixed", (None, 32, "32", "32-true"), ("dtype", "float16")),
            ),
        },
        every={
            "evaluation_often": "check_val_every_n_epoch",
            "rare_logging": "log_every_n_steps",
        },
    ),
    "accelerate": Trainer(  # last: the loops of the others may run through it
        ("accelerate.Accelerator",),
        ("accelerate.optimizer",),
        {
            "mixed_precision": (
                Option("mixed_precision", "bf16", (None, "no"), ("dtype", "bfloat16")),
                Option("mixed_precision", "fp16", (None, "no"), ("dtype", "float16")),
            ),
        },
        own_loop=True,
    ),
}


def trainer_of(modules: list[str]) -> str:
    """The trainer whose loop runs, by the modules on the stack; empty for a loop of one's own."""
    for name, trainer in TRAINERS.items():
        if any(module.startswith(trainer.module) for module in modules):
            return name
    return ""


def advice(trainer: object, name: str, *, cuda: bool) -> str:
    """What to pass to a trainer for a technique; empty where it has no option of that kind."""
    found = TRAINERS.get(str(trainer or ""))
    if found is not None and name in found.every:
        return f"with this trainer: {found.takes}({found.every[name]}=N)"
    options = found.options.get(name, ()) if found else ()
    if found is None or not options:
        return ""
    first = options[0]
    shown = f"{first.name}={'N' if isinstance(first.value, ChoiceOf) else repr(first.value)}"
    if first.on_cpu and not cuda:
        shown += f", {first.on_cpu[0]}={first.on_cpu[1]!r}"
    return f"with this trainer: {found.takes}({shown})"


def moves(name: str, values: Mapping[str, object], *, cuda: bool) -> dict[str, list[Keyword]]:
    """The moves that pass a trainer's options for a technique, by trainer."""
    choices: dict[str, Choice] = {choice.name: choice for choice in technique(name).choices}
    found: dict[str, list[Keyword]] = {}
    for trainer, known in TRAINERS.items():
        for option in known.options.get(name, ()):
            if option.only is None or values.get(option.only[0]) == option.only[1]:
                chosen = option.value
                value = choices[chosen.name] if isinstance(chosen, ChoiceOf) else chosen
                unless = () if option.unless is None else (option.unless,)
                passed = [Keyword(known.called, option.name, value, option.over, True, unless)]
                if option.on_cpu and not cuda:
                    passed.append(
                        Keyword(known.called, *option.on_cpu, (None, False), True, unless)
                    )
                found[trainer] = passed
    return found
