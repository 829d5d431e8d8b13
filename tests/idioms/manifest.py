"""The idioms: how each script is run, how it ends, and how many steps it makes.

`command` is run in this folder, with "{python}" replaced by an interpreter. `steps` counts
cycles: one turn of every optimizer (a GAN's discriminator and generator, WGAN's three critic
updates and one of the generator), one update after accumulation, one LBFGS step, and for
several ranks the steps of each rank. `needs` are modules to `importorskip`.
"""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Idiom:
    name: str
    command: tuple[str, ...]
    exit_code: int = 0
    steps: int = 0
    needs: tuple[str, ...] = ()
    stdin: str | None = None

    def argv(self, python: str) -> list[str]:
        return [part.replace("{python}", python) for part in self.command]


def script(
    name: str, steps: int, *arguments: str, needs: tuple[str, ...] = (), file: str | None = None
) -> Idiom:
    command = ("{python}", f"{file or name}.py", *arguments)
    return Idiom(name, command, steps=steps, needs=needs)


# By address: on a machine that does not know its own name, ranks would look for it in vain.
TORCHRUN = (
    *("{python}", "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"),
    *("--nproc-per-node", "2"),
)
VERSE = "the quick brown fox jumps over the lazy dog\n" * 4

IDIOMS = [
    script("plain_loader", 24),
    script("own_get_batch", 16),
    script("next_iter", 18),
    script("gan", 20),
    script("wgan", 12, "--n-critic", "3"),
    script("grad_accumulation", 12),
    script("lbfgs", 10),
    script("tuple_output", 16),
    script("dict_output", 15),
    script("dataclass_output", 15),
    script("hf_output", 12, needs=("transformers",)),
    script("loss_in_model", 16),
    script("data_parallel", 12),
    Idiom("ddp_torchrun", (*TORCHRUN, "ddp_torchrun.py"), steps=12),
    script("mp_spawn", 12),
    script("own_scaler", 16),
    script("cpu_autocast", 14),
    script("user_compiled", 12),
    script("lightning_trainer", 16, needs=("lightning",)),
    script("hf_trainer", 12, needs=("transformers", "accelerate")),
    script("accelerate_loop", 12, needs=("accelerate",)),
    script("functional_params", 15),
    script("iterable_workers", 12),
    script("worker_spawn", 10, "spawn", file="worker_context"),
    script("worker_forkserver", 10, "forkserver", file="worker_context"),
    Idiom("module", ("{python}", "-m", "package_run.train", "--width", "24"), steps=12),
    Idiom("bash_wrapper", ("bash", "wrapper/run.sh", "{python}", "--lr", "0.1"), steps=12),
    Idiom("stdin_exit3", ("{python}", "stdin_exit3.py", "3"), exit_code=3, steps=14, stdin=VERSE),
    script("schedule_ema", 20),
    script("optimizer_list", 16),
    Idiom("ends_by_exception", ("{python}", "ends_by_exception.py"), exit_code=1, steps=12),
    script("packed_rnn", 12),
    script("custom_collate", 16),
]
