"""What is asked of a dry run, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotlap.parallel.dryrun.sizes import Sizes
from hotlap.parallel.parallelism import Parallelism


@dataclass(frozen=True)
class Job:
    """A rank to run: of which model, layout and pipeline stage, over which batch.

    `sizes`: those of a transformer, or `function`: `module:function` that builds a model, fed token
    ids of length `sequence` where it says nothing else.
    `stages`: names of each pipeline stage's layers; empty: shared out evenly. `micro_batch`:
    sequences at once; `micro_batches`: how many of them a step has. `dtype`: of the parameters at
    rest. `recompute`: each block, in the backward pass. `autocast`: bfloat16 in the passes.
    `buckets`: gradients stay between steps, as views of DDP's buckets do; DDP itself cannot work on
    fake tensors.
    """

    sizes: Sizes | None
    parallelism: Parallelism
    stage: int
    micro_batch: int
    micro_batches: int
    dtype: str = "float32"
    recompute: bool = False
    autocast: bool = False
    buckets: bool = False
    stages: tuple[tuple[str, ...], ...] = ()
    function: str = ""
    sequence: int = 0

    @staticmethod
    def of(given: Mapping[str, Any]) -> "Job":
        """From plain tables, as JSON has them.

        Raises:
            TypeError, ValueError: a field is missing, unknown or cannot be.
        """
        made = {
            "sizes": Sizes(**given["sizes"]) if given.get("sizes") else None,
            "parallelism": Parallelism.of(**given["parallelism"]),
            "stages": tuple(tuple(names) for names in given.get("stages", ())),
        }
        return Job(**{**given, **made})


@dataclass(frozen=True)
class DryRunResult:
    """What one step of the rank came to.

    `peak`: bytes; `owners`: bytes by owner at the peak. `flops`: of the step. `sent`: bytes by
    'collective mesh-dimension'. `seconds`: what the run took.
    """

    peak: int
    owners: dict[str, int]
    flops: int
    sent: dict[str, int]
    seconds: float
