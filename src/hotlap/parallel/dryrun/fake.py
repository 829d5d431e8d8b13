"""Run a rank in a world that is not there: a fake process group and fake tensors."""

import time
from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from hotlap.parallel.dryrun.dryrun_job import DryRunResult, Job
from hotlap.parallel.dryrun.model_source import cross_entropy
from hotlap.parallel.dryrun.pipeline_stage import Alone
from hotlap.parallel.dryrun.rank import Rank
from hotlap.parallel.dryrun.watch import Watch


class Hollow(TorchFunctionMode):
    """Lets `Module.to_empty` make fake tensors.

    A device mesh cannot be made, nor a model sharded, in a world of fake tensors; so that only
    this one step of `hotlap.parallel.parallelize` is taken there.
    """

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self._fake = fake

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        hollow = func is torch.empty_like
        if not hollow:
            return func(*args, **(kwargs or {}))
        with self._fake:
            return func(*args, **(kwargs or {}))


def dry_run(job: Job) -> DryRunResult:
    """What a step of the job's rank comes to; nothing is allocated or sent.

    Raises:
        RuntimeError: a process group is there already.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore  # registers the backend

    if dist.is_initialized():
        raise RuntimeError("a dry run makes a fake process group; there is a real one already")
    p = job.parallelism
    rank = job.stage * (p.world // p.pipeline_parallel_degree)
    dist.init_process_group("fake", rank=rank, world_size=p.world, store=FakeStore())
    try:
        return _run(job)
    finally:
        dist.destroy_process_group()


def _run(job: Job) -> DryRunResult:
    start = time.perf_counter()
    fake, watch = FakeTensorMode(allow_non_fake_inputs=True), Watch()
    rank = Rank(job, Hollow(fake))
    with fake, watch:
        rank.start(watch)
        rank.step(rank.one_micro_batch)
        rank.step(_pipelined(rank) if job.parallelism.stages > 1 else rank.all_micro_batches)
    return rank.found(time.perf_counter() - start)


def _pipelined(rank: Rank) -> Callable[[], None]:
    spread = rank.spread
    alone = Alone(spread.parts, spread.mesh, cross_entropy, rank.passed(), rank.own_gradients)

    def step() -> None:
        ids = rank.ids()
        alone.step(ids, target=ids)

    return step
