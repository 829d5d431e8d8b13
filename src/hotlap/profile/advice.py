"""What a profile can show that no technique changes by itself; the remedy is the user's to apply.

No record of the catalogue describes it. Each has the fields of a technique's symptom, and an id.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hotlap.core import trainers
from hotlap.core.registry import techniques
from hotlap.core.technique import Need, Symptom
from hotlap.profile.model import Finding, Remedy
from hotlap.trial.command import THIS_CELL, hotlap_line, plain_lines

COMMAND = re.compile(r"`((?:hotlap (?:tune|race)|[A-Z_]+=\w+) [^`]*\bCMD\b[^`]*)`")
"""A command in the words of a remedy that is about the program itself, as CMD."""

ASSIGNED = re.compile(r"((?:[A-Z_]+=\w+ )+)CMD")


@dataclass(frozen=True)
class Advice:
    """A remedy that is the user's to apply. `least`: share of a step from which it is worth it."""

    id: str
    symptom: Symptom
    needs: tuple[Need, ...] = ()
    least: float = 0.02


SAMPLER = "slow_sampler"
SLOW_SAMPLER = (
    "a sampler chooses samples on this line, in the training process, however many workers there "
    "are: prepare what it looks up once, in its __init__"
)

KV_CACHE = (
    "each new token computes the whole text again; keep the keys and values of earlier tokens "
    "(use_cache=True, or a cache in the attention layers)"
)
EVALUATION = "evaluation_often"
SHARED_EVALUATION = (
    "where one rank evaluates, the others wait for it: let each evaluate a part of the data, and "
    "add up the results"
)
ADVICE = (
    Advice(
        "kv_cache",
        Symptom(("forward",), KV_CACHE, "model", 0.5),
        (Need("decodes_uncached", "no text is generated without a cache"),),
    ),
    Advice(
        "kv_cache",
        Symptom(("evaluation",), KV_CACHE, "evaluation", 0.5),
        (Need("generates_uncached", "no text is generated without a cache"),),
        0.1,
    ),
    Advice(
        "float64_compute",
        Symptom(
            ("copy", "forward", "backward", "optimizer"),
            "tensors are float64: twice the bytes and at most half the speed of float32; "
            "use .float(), or astype(np.float32) where the data are made",
            "float64",
            0.5,
        ),
        (Need("float64_model", "the model is not in float64"),),
    ),
    Advice(
        "zero_rate",
        Symptom(
            ("backward", "optimizer"),
            "their gradients are computed, and change nothing: call requires_grad_(False) on them "
            "until they are to train",
            "optimizer",
            0.5,
        ),
        (Need("zero_rate", "every group of parameters has a learning rate"),),
    ),
    Advice(
        "slow_half",
        Symptom(
            ("forward", "backward"),
            "float32 is faster on this machine: leave torch.autocast out, or pass enabled=False "
            "(or keep the model in float32)",
            "half",
            0.5,
        ),
        (Need("slow_half", "the model does not compute in 16 bits"),),
    ),
    Advice(
        "float64_copies",
        Symptom(
            ("copy",),
            "tensors are converted to float64 in the step; make and keep them in float32",
            "float64_copied",
        ),
        (Need("float64_copies", "nothing is converted to float64"),),
    ),
    Advice(
        "dispatched_batches",
        Symptom(
            ("data",),
            "rank 0 reads the batches of all ranks and sends them, as Accelerate does for an "
            "IterableDataset: have the dataset yield the part of its own rank "
            "(process_index::num_processes), and do not pass its loader to prepare()",
            "loader",
            0.5,
        ),
        (Need("dispatched_batches", "each rank reads batches of its own"),),
    ),
    Advice(
        "iterable_workers",
        Symptom(
            ("data",),
            "this process makes each batch while the model waits: num_workers=N moves that to "
            "worker processes; have each yield a part of its own "
            "(torch.utils.data.get_worker_info()), or every sample comes N times",
            "loader",
        ),
        (
            Need("loaders", "no DataLoader is iterated"),
            Need("!map_style", "loader_workers moves a map-style dataset to worker processes"),
            Need("!fed_by_workers", "it is in worker processes already"),
        ),
    ),
    Advice(
        SAMPLER,
        Symptom(("data",), SLOW_SAMPLER, "dataset", 0.5),
        (Need(SAMPLER, "no sampler is what the wait for data is spent in"),),
        0.1,
    ),
    Advice(
        "slow_samples",
        Symptom(
            ("data",),
            "the workers make batches more slowly than the step uses them: do less for each sample "
            "(or once, before the training), or run it on more cores",
            "dataset",
            0.5,
        ),
        (
            Need("fed_by_workers", "the training's loader has no workers"),
            Need("!slow_sampler", "the training process is late with the numbers of samples"),
        ),
        0.1,
    ),
    Advice(
        "copies_in_step",
        Symptom(
            ("copy",),
            "tensors are copied or converted in the step; do it once, before the loop",
            "copy",
            sure=False,
        ),
        (
            Need("!cuda", "copies to the GPU are what the step is for"),
            Need("!float64_copies", "told as float64_copies"),
        ),
        0.1,
    ),
    Advice(
        EVALUATION,
        Symptom(
            ("evaluation",),
            "evaluation takes this part of the time: evaluate less often, or on fewer samples",
            "evaluated",
            sure=False,
        ),
        (Need("!asks_each_step", "the model is asked for what it is trained on"),),
        0.25,
    ),
    Advice(
        "python_in_step",
        Symptom(
            ("other",),
            "Python code of the loop itself, outside of data, model and optimizer: compute what "
            "does not change before the loop, print and log less often, use tensors for loops "
            "over numbers",
            "other",
            sure=False,
        ),
        (),
        0.25,
    ),
)


def addressed(
    finding: Finding,
    facts: Mapping[str, object],
    command: str,
    written: Mapping[str, str] | None = None,
) -> Finding:
    """The finding for this program: what only a person can apply marked, commands to paste.

    `command` is the program's, as typed in a shell; empty where it is not known. `written`: the
    commands that write techniques into the source of the findings that lint has.
    """
    fixing = written or {} if finding.pattern else {}
    remedies = tuple(
        _written(_addressed(remedy, facts, command), fixing.get(remedy.id, ""))
        for remedy in finding.remedies
    )
    what = COMMAND.sub("the command below", finding.what) if command else finding.what
    return replace(finding, what=what, remedies=remedies)


def _written(remedy: Remedy, command: str) -> Remedy:
    """The remedy with the command that writes it, if there is one."""
    if not command:
        return remedy
    return replace(remedy, by_hand=False, lines=(*remedy.lines, command))


def _addressed(remedy: Remedy, facts: Mapping[str, object], command: str) -> Remedy:
    record = techniques().get(remedy.id)
    by_hand = record is None or not record.moves or bool(record.missing(dict(facts)))
    if option := trainers.advice(facts.get("trainer"), remedy.id, cuda=bool(facts.get("cuda"))):
        remedy = replace(remedy, notes=(*remedy.notes, option))
    if remedy.id == EVALUATION and facts.get("several_ranks"):
        remedy = replace(remedy, notes=(*remedy.notes, SHARED_EVALUATION))
    if not command:
        return replace(remedy, by_hand=by_hand)
    commands = [c for text in (remedy.says, *remedy.notes) for c in COMMAND.findall(text)]
    return replace(
        remedy,
        by_hand=by_hand,
        says=COMMAND.sub("the command below", remedy.says),
        notes=tuple(COMMAND.sub("the command above", note) for note in remedy.notes),
        lines=(*remedy.lines, *(line for c in commands for line in _typed(c, command))),
    )


def _typed(words: str, command: str) -> tuple[str, ...]:
    """A command about the program itself as it is typed for this one."""
    if found := ASSIGNED.fullmatch(words):
        return plain_lines(command, dict(word.split("=", 1) for word in found[1].split()))
    if command == THIS_CELL:
        return _in_session(words)
    return (re.sub(r"\bCMD\b", lambda _: command, words),)


def _in_session(words: str) -> tuple[str, ...]:
    """The magic for a command of hotlap; `env` sets what a process reads as it starts."""
    _, verb, *rest = words.split()
    if verb == "tune":
        return (hotlap_line(verb, " ".join(rest[:-1]), THIS_CELL),)
    return (" ".join((*(word for word in rest if "=" in word), "jupyter lab")),)
