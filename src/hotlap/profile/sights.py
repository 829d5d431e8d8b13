"""What the probe saw besides time: graphs kept alive, raw inputs, layers, torch's warnings.

Each becomes a spot, as if lint had found it, so that it gets its cost and stands once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.core.registry import techniques
from hotlap.profile.join import split
from hotlap.profile.retained import binding
from hotlap.profile.torch_warnings import known
from hotlap.source.lint import Spot

FAR_MEAN = 3.0
LARGE_STD = 5.0
SMALL_STD = 0.02
WIDE_SPREAD = 100.0


@dataclass(frozen=True)
class Words:
    """What to say of a sight whose technique has no pattern to say it."""

    says: str
    remedy: str


WORDS = {
    "retained_graph": Words(
        "what is kept here keeps the graph of every step alive, so that memory grows",
        "keep .detach() of it, or .item() where the number is enough",
    ),
    "bias_before_norm": Words(
        "the bias is taken out again by the batch normalisation that follows",
        "bias=False",
    ),
    "dims_multiple_of_8": Words(
        "large sizes that are no multiple of 8 keep tensor cores idle",
        "pad vocabulary, features, channels and batch to a multiple of 8 (64 on an A100 or newer)",
    ),
    "input_normalised": Words(
        "the inputs are far from zero mean and unit variance, which slows learning",
        "normalise them with the data set's mean and standard deviation",
    ),
    "ddp_not_dp": Words(
        "DataParallel copies the model to every GPU in each step, in one process",
        "DistributedDataParallel, one process a GPU, started by torchrun",
    ),
}


def sights(payload: Mapping[str, Any], folder: Path) -> list[Spot]:
    """The spots of what was seen in the running program and has a place."""
    found = [
        *_retained(payload, folder),
        *_modules(payload, folder),
        *_warnings(payload["warnings"], folder),
    ]
    return list({(spot.path, spot.line, spot.id): spot for spot in found}.values())


def _retained(payload: Mapping[str, Any], folder: Path) -> Iterator[Spot]:
    for holder in payload["retained"]:
        path = folder / holder["path"]
        if line := binding(path, holder):
            yield from _spot("retained_graph", f"{path}:{line}", folder, f"`{holder['name']}`")


def _modules(payload: Mapping[str, Any], folder: Path) -> Iterator[Spot]:
    seen, places = payload["modules"], payload["places"]
    for layer in seen.get("bias_before_norm", ()):
        yield from _spot("bias_before_norm", layer["place"], folder)
    if payload["facts"]["cuda"]:
        for layer in seen.get("odd_sizes", ()):
            sizes = ", ".join(f"{name}={size}" for name, size in layer["sizes"].items())
            yield from _spot("dims_multiple_of_8", layer["place"], folder, sizes)
    if payload["facts"].get("data_parallel"):
        yield from _spot("ddp_not_dp", places.get("model", ""), folder)
    if said := raw(seen.get("input") or {}):
        yield from _spot("input_normalised", places.get("model", ""), folder, said)


def raw(statistics: Mapping[str, float]) -> str:
    """How a model's inputs show that nobody normalised them; empty if they do not.

    Raw pixels (0 to 255), raw units, features of quite different scales. Inputs between 0 and 1
    are let pass.
    """
    if not statistics:
        return ""
    mean, std = statistics["mean"], statistics["std"]
    if abs(mean) > FAR_MEAN * max(std, 1.0) or std > LARGE_STD or 0 < std < SMALL_STD:
        return f"mean {mean:.3g}, standard deviation {std:.3g}"
    if statistics["spread"] > WIDE_SPREAD:
        return (
            f"features whose standard deviations differ by a factor of {statistics['spread']:.3g}"
        )
    return ""


def _warnings(shown: list[Mapping[str, Any]], folder: Path) -> Iterator[Spot]:
    for entry, place in known(shown):
        if at := split(place, folder):
            path, line = at
            yield Spot(path, line, 1, entry.id, entry.says, entry.remedy, entry.technique)


def _spot(technique: str, place: str, folder: Path, detail: str = "") -> Iterable[Spot]:
    at = split(place, folder)
    if at is None:
        return ()
    record = techniques().get(technique)
    pattern = next(iter(record.patterns), None) if record else None
    words = pattern or WORDS[technique]
    says = f"{words.says} ({detail})" if detail else words.says
    name = pattern.id if pattern else technique
    return (Spot(at[0], at[1], 1, name, says, words.remedy, technique, phases=NO_TIME),)


NO_TIME = ("memory",)
"""Their lines cost no time; what they lead to does."""
