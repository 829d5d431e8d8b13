"""Make a trained model smaller and faster: prune, distil, quantise, and what they give together.

`python -m hotlap.model.shrink JOB` does the work of `hotlap shrink`. JOB is JSON, the fields of
`Job`; each thing found is one line of JSON on stdout. What the user's own functions print goes to
stderr.
"""

import copy
import io
import json
import math
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn

from hotlap.common.extras import MissingPackageError
from hotlap.model.distil import distilled
from hotlap.model.fuse import fuse_conv_norm, fusible
from hotlap.model.latency import race
from hotlap.model.pruning import PruningError, parameter_count, prune
from hotlap.model.quantization import quantize
from hotlap.model.rebuild import save_shrunk, snippet
from hotlap.model.user_functions import Evaluation, InputError, build, function

Emit = Callable[[dict[str, object]], None]


@dataclass(frozen=True)
class Job:
    """What to shrink, and the targets. `params`: share to keep; others: gains; 0: no target.

    `max_drop`: how much worse the quality may be: in points (hundredths of a metric up to 1, units
    of one up to 100) or, with `relative`, a share of the original's.
    """

    model: str
    evaluate: str
    output: str
    checkpoint: str | None = None
    train: str | None = None
    test: str | None = None
    params: float = 0.0
    latency: float = 0.0
    size: float = 0.0
    max_drop: float = 0.5
    relative: bool = False
    lower_is_better: bool = False
    seeds: int = 3
    threads: int = 1
    precisions: tuple[str, ...] = ("int8", "int8_dynamic")


@dataclass(frozen=True)
class Recipe:
    """How a candidate is made: the share of parameters kept (1: not pruned), and what follows."""

    keep: float = 1.0
    tuned: str = ""
    precision: str = ""

    @property
    def name(self) -> str:
        """As the table shows it."""
        pruned = f"prune to {self.keep:g}x" if self.keep < 1 else ""
        words = (pruned, self.tuned, self.precision and f"quantise {self.precision}")
        return " + ".join(filter(None, words)) or "fuse"


@dataclass
class Result:
    """A candidate as it was measured; qualities by seed, `latency` as (gain, low, high)."""

    name: str
    recipe: dict[str, object]
    parameters: int
    bytes: int
    latency: tuple[float, float, float]
    milliseconds: float
    qualities: list[float]
    front: bool = False
    meets: bool = False
    fails: list[str] = field(default_factory=list)


class Shrinking:
    """One run: the original, and the candidates as they are made and measured."""

    def __init__(self, job: Job, emit: Emit) -> None:
        self.job, self.emit = job, emit
        torch.set_num_threads(job.threads)
        self.evaluate = Evaluation(job.evaluate)
        self.train = function(job.train) if job.train else None
        self.test = Evaluation(job.test) if job.test else None
        self.original = build(job.model, job.checkpoint).eval()
        self.quality = self.evaluate(self.original)
        if not math.isfinite(self.quality):
            raise InputError(f"{job.evaluate} returned {self.quality} for the original model")
        if self.evaluate.inputs is None:
            raise InputError(
                f"{job.evaluate} did not call the model", "it is given the model to call"
            )
        self.inputs = self.evaluate.inputs
        self.tuned: dict[tuple[float, str, int], nn.Module] = {}
        self.bytes = stored_bytes(self.original)
        self.results: list[tuple[Recipe, Result]] = []

    def run(self) -> None:
        """Measure every candidate with one seed, then those that may win with all seeds."""
        emit, original = self.emit, self.original
        emit({"event": "original", "parameters": parameter_count(original), "bytes": self.bytes,
              "quality": self.quality, "fusible": len(fusible(original)),
              "milliseconds": 1e3 * race(original, original, self.inputs, pairs=4).seconds,
        })  # fmt: skip
        for recipe in self.recipes():
            emit({"event": "status", "text": recipe.name})
            try:
                result = self.measured(recipe)
            except (PruningError, ValueError, NotImplementedError, AssertionError, ImportError,
                    RuntimeError) as error:  # fmt: skip
                if isinstance(error, MissingPackageError | InputError):
                    raise
                ours = isinstance(error, PruningError | ValueError)
                why = str(error) if ours else last_line(error)
                emit({"event": "skipped", "name": recipe.name, "why": why})
                continue
            self.results.append((recipe, result))
            emit({"event": "candidate", **asdict(result)})
        self.confirm()

    def recipes(self) -> Iterator[Recipe]:
        """What is tried, the cheapest first."""
        if fusible(self.original):
            yield Recipe()
        kinds = {type(m) for m in self.original.modules()}
        precisions = self.job.precisions if kinds & {nn.Linear, nn.Embedding} else ()
        for precision in precisions:
            yield Recipe(precision=precision)
        target = self.job.params or 0.5
        for keep in (target, target / 2):
            for tuned in ("fine-tune", "distil") if self.train else ("",):
                yield Recipe(keep, tuned)
                for precision in precisions:
                    yield Recipe(keep, tuned, precision)

    def measured(self, recipe: Recipe) -> Result:
        """Make the candidate with seed 0; its size, its quality, its latency in a race."""
        final, _ = self.made(recipe, 0)
        timed = race(self.original, final, self.inputs)
        result = Result(
            recipe.name, asdict(recipe), parameter_count(self.plain(recipe, 0)),
            stored_bytes(final),
            (timed.gain, timed.low, timed.high), 1e3 * timed.seconds, [self.evaluate(final)],
        )  # fmt: skip
        self.judge(result)
        return result

    def made(self, recipe: Recipe, seed: int) -> tuple[nn.Module, nn.Module]:
        """The final model, and the one before it was quantised."""
        plain = fuse_conv_norm(self.plain(recipe, seed).eval())
        return (quantize(plain, recipe.precision) if recipe.precision else plain), plain

    def plain(self, recipe: Recipe, seed: int) -> nn.Module:
        """Pruned and fine-tuned; made once for all that is done with it later."""
        if recipe.keep >= 1:
            return self.original
        key = (recipe.keep, recipe.tuned, seed)
        if key not in self.tuned:
            pruned = prune(self.original, self.inputs, recipe.keep)
            self.tuned[key] = self.fine_tuned(pruned, recipe.tuned, seed)
        return self.tuned[key]

    def fine_tuned(self, model: nn.Module, how: str, seed: int) -> nn.Module:
        """Train by the user's own loop, which may return another module."""
        if not how or self.train is None:
            return model
        random.seed(seed)
        torch.manual_seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
        model.train()
        if how == "distil":
            teacher = copy.deepcopy(self.original)
            with distilled(model, teacher):
                returned = self.train(model)
        else:
            returned = self.train(model)
        torch.set_num_threads(self.job.threads)  # a loop may set its own
        return returned if isinstance(returned, nn.Module) else model

    # which of them

    def drop(self, qualities: list[float], original: float) -> float:
        """How much worse than the original the mean over seeds is, in the unit of `max_drop`."""
        mean = sum(qualities) / len(qualities)
        worse = (mean - original) if self.job.lower_is_better else (original - mean)
        if self.job.relative:
            return worse / abs(original) if original else math.inf
        return 100 * worse if abs(original) <= 1 else worse

    def judge(self, result: Result) -> None:
        """Say which targets the candidate misses; a latency counts by its interval's lower end."""
        job = self.job
        share = result.parameters / parameter_count(self.original)
        result.fails = [
            name
            for name, missed in (
                ("params", job.params and share > job.params),
                ("latency", job.latency and result.latency[1] < job.latency),
                ("size", job.size and self.bytes / result.bytes < job.size),
                ("quality", not self.drop(result.qualities, self.quality) <= job.max_drop),
            )
            if missed
        ]
        result.meets = not result.fails

    def confirm(self) -> None:
        """Repeat the best that meet the targets with the other seeds, until one of them holds."""
        for recipe, result in sorted(self.results, key=lambda pair: -gain(pair[1])):
            if not result.meets:
                continue
            for seed in range(1, self.job.seeds if recipe.tuned else 1):
                self.emit({"event": "status", "text": f"{recipe.name}, seed {seed}"})
                result.qualities.append(self.evaluate(self.made(recipe, seed)[0]))
            self.judge(result)
            self.emit({"event": "candidate", **asdict(result)})
            if result.meets:
                self.write(recipe, result, self.tested(recipe, result))
                return

    def tested(self, recipe: Recipe, result: Result) -> dict[str, object]:
        """The winner's quality on data that chose nothing, with every seed, and the original's."""
        if self.test is None:
            return {}
        original = self.test(self.original)
        models = (self.made(recipe, seed)[0] for seed in range(len(result.qualities)))
        qualities = [self.test(model) for model in models]
        found = {"original": original, "qualities": qualities,
                 "holds": self.drop(qualities, original) <= self.job.max_drop}  # fmt: skip
        self.emit({"event": "tested", **found})
        return found

    def write(self, recipe: Recipe, result: Result, tested: dict[str, object]) -> None:
        """Keep the model of seed 0 and how it was made."""
        final, plain = self.made(recipe, 0)
        folder = Path(self.job.output)
        record = {"result": asdict(result), "original": {"quality": self.quality},
                  "tested": tested, "job": asdict(self.job),
                  "torch": str(torch.__version__)}  # fmt: skip
        save_shrunk(final, folder, record, precision=recipe.precision, plain=plain)
        (folder / "load.py").write_text(snippet(self.job.model, Path.cwd()))
        self.emit({"event": "written", "folder": str(folder), "name": result.name})


def gain(result: Result) -> float:
    """What orders the candidates that meet the targets: the faster, at like speed the smaller.

    The lower end of the latency's interval counts, so that no lucky race wins.
    """
    return math.log(result.latency[1]) - 0.25 * math.log(result.bytes)


def stored_bytes(model: nn.Module) -> int:
    """Size of the file that the state dict makes."""
    memory = io.BytesIO()
    torch.save(model.state_dict(), memory)
    return memory.tell()


def last_line(error: BaseException) -> str:
    """The error in one line."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def main(text: str) -> int:
    """Do the job; lines of JSON go to the real stdout, what is printed to stderr."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def emit(document: dict[str, object]) -> None:
        out.write(json.dumps(document) + "\n")

    words = json.loads(text)
    sys.path.insert(0, str(Path.cwd()))
    try:
        Shrinking(Job(**{**words, "precisions": tuple(words["precisions"])}), emit).run()
    except (InputError, MissingPackageError) as error:
        emit({"event": "error", "kind": "usage", "message": str(error),
              "hint": getattr(error, "hint", "")})  # fmt: skip
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        traceback.print_exc()
        emit({"event": "error", "kind": "failed", "message": last_line(error), "hint": ""})
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
