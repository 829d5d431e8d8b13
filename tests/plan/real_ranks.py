"""Real ranks of a layout, forked and joined by Gloo: the memory of their tensors.

`python real_ranks.py`, jobs as JSON lines on stdin; for each a line with every rank's peak, counted
twice: of the storages that operations make, and of what torch's CPU allocator hands out.
"""

import faulthandler
import gc
import json
import multiprocessing
import os
import sys
import tempfile
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from hotlap.parallel.dryrun.dryrun_job import Job
from hotlap.parallel.dryrun.rank import Rank
from hotlap.parallel.dryrun.watch import Watch

LIMIT = 120.0  # seconds a job may take
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def allocated(events):
    """Most bytes the allocator had given out, over the whole tree of events."""
    most, rest = 0, list(events)
    while rest:
        event = rest.pop()
        rest += event.children
        if event.typed[0].name == "Allocation":
            most = max(most, event.typed[1].total_allocated)
    return most


def steps(rank, watch):
    rank.start(watch)
    pipeline, ids = rank.spread.pipeline, rank.ids()
    if pipeline is not None:  # real neighbours tell each other their shapes first
        rank.step(lambda: pipeline.step(ids, target=ids))
        rank.step(lambda: pipeline.step(ids, target=ids))
    else:
        rank.step(rank.one_micro_batch)
        rank.step(rank.all_micro_batches)


def one(job, stage, number, store, answers):
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    torch.set_num_threads(1)
    world = job.parallelism.world
    dist.init_process_group("gloo", f"file://{store}", rank=number, world_size=world)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        rank = Rank(job, nullcontext())
        with Watch() as watch:
            steps(rank, watch)
    found = rank.found(0.0)
    events = profiler.profiler.kineto_results.experimental_event_tree()
    answers.put((number, found.peak, allocated(events), found.owners, found.flops))
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()
    gc.collect()


def ranks(given):
    """Every rank's peak, by rank."""
    context = multiprocessing.get_context("fork")
    world = Job.of({**given, "stage": 0}).parallelism.world
    pipeline = Job.of({**given, "stage": 0}).parallelism.pipeline_parallel_degree
    answers = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for number in range(world):
            job = Job.of({**given, "stage": number * pipeline // world})
            arguments = (job, job.stage, number, f"{folder}/store", answers)
            started.append(context.Process(target=one, args=arguments))
        for process in started:
            process.start()
        for process in started:
            process.join(LIMIT)
        if any(process.exitcode for process in started):
            return [{"error": f"exit codes {[process.exitcode for process in started]}"}]
        found = sorted(answers.get() for _ in started)
    names = ("rank", "peak", "allocated", "owners", "flops")
    return [dict(zip(names, row, strict=True)) for row in found]


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(ranks(json.loads(line))), flush=True)
