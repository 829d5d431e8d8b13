"""The table of compositions: every kind of parallelism alone, and those that go together."""

from typing import Any

import torch

from hotlap.parallel import Parallelism, Preparation
from hotlap.parallel.names import SCHEDULES
from parallel.parity import Case

RECOMPUTED = Preparation(recompute=["layers.*"])


def case(name: str, more: dict[str, Any] | None = None, **names: Any) -> Case:
    return Case(name, Parallelism.of(**names), **more or {})


CORE = [
    case("ddp", {"accumulate": 2, "clip": 0.5}, replicate=2),
    case("fsdp", {"accumulate": 2, "clip": 0.5}, shard=2),
    case("tp", {"clip": 0.5}, tp=2),
    case("tp sp loss", tp=2, sequence=True, loss_parallel=True),
    case("pp 1F1B", {"clip": 0.5}, pp=2),
]

TWO = [
    case("ddp", replicate=2),
    case("ddp accumulation clip", {"accumulate": 2, "clip": 0.5}, replicate=2),
    case("ddp small buckets, no views", replicate=2, bucket_cap_mb=0.01,
         gradient_as_bucket_view=False),
    case("fsdp", shard=2),
    case("fsdp accumulation clip", {"accumulate": 2, "clip": 0.5}, shard=2),
    case("fsdp recompute", {"preparation": RECOMPUTED}, shard=2),
    case("fsdp never reshard", shard=2, reshard="never"),
    case("fsdp offload", shard=2, cpu_offload=True),
    case("tp", tp=2),
    case("tp accumulation clip recompute",
         {"accumulate": 2, "clip": 0.5, "preparation": RECOMPUTED}, tp=2),
    case("tp sp", tp=2, sequence=True),
    case("tp loss", tp=2, loss_parallel=True),
    case("tp sp loss recompute", {"preparation": RECOMPUTED}, tp=2, sequence=True,
         loss_parallel=True),
    case("pp accumulation clip", {"accumulate": 2, "clip": 0.5}, pp=2),
    case("pp recompute", {"preparation": RECOMPUTED}, pp=2),
    *(case(f"pp {name}", pp=2, schedule=name) for name in SCHEDULES),
    case("pp 1F1B 8 micro-batches", pp=2, chunks=8),
]  # fmt: skip

FOUR = [
    case("ddp 4", replicate=4),
    case("fsdp 4", shard=4),
    case("hsdp", {"clip": 0.5}, replicate=2, shard=2),
    case("tp 4", tp=4),
    case("tp sp loss 4", tp=4, sequence=True, loss_parallel=True),
    case("pp 4", pp=4),
    case("pp 4 Interleaved1F1B", {"layers": 8}, pp=4, schedule="Interleaved1F1B"),
    case("fsdp pp", {"clip": 0.5}, shard=2, pp=2),
    case("fsdp pp Interleaved1F1B", shard=2, pp=2, schedule="Interleaved1F1B"),
    case("fsdp pp always reshard", shard=2, pp=2, reshard="always"),
    case("ddp pp", {"clip": 0.5}, replicate=2, pp=2),
    case("tp pp", {"clip": 0.5}, tp=2, pp=2),
    case("tp sp loss pp", tp=2, sequence=True, loss_parallel=True, pp=2),
    case("fsdp tp", {"clip": 0.5}, shard=2, tp=2),
    case("fsdp tp sp loss accumulation recompute",
         {"clip": 0.5, "accumulate": 2, "preparation": RECOMPUTED},
         shard=2, tp=2, sequence=True, loss_parallel=True),
    case("replicas tp", {"clip": 0.5, "accumulate": 2}, replicate=2, tp=2),
]  # fmt: skip

EIGHT = [
    case("ddp 8", replicate=8),
    case("fsdp 8", shard=8),
    case("hsdp 2x4", {"clip": 0.5}, replicate=2, shard=4),
    case("fsdp tp-sp pp", {"clip": 0.5}, shard=2, tp=2, sequence=True, pp=2),
    case("fsdp tp-sp-loss pp recompute", {"clip": 0.5, "preparation": RECOMPUTED},
         shard=2, tp=2, sequence=True, loss_parallel=True, pp=2),
    case("hsdp pp clip recompute", {"clip": 0.5, "preparation": RECOMPUTED},
         replicate=2, shard=2, pp=2),
    case("hsdp tp", {"clip": 0.5}, replicate=2, shard=2, tp=2),
    case("ddp 2 pp 4", {"clip": 0.5}, replicate=2, pp=4),
    case("fsdp 2 pp 4 Interleaved1F1B", {"layers": 8}, shard=2, pp=4,
         schedule="Interleaved1F1B"),
    case("tp 4 pp 2", {"clip": 0.5}, tp=4, pp=2),
    case("fsdp 2 tp 4", {"clip": 0.5}, shard=2, tp=4, sequence=True),
]  # fmt: skip

OPTIMIZERS = [
    case(f"{kind} {name}", {"optimizer": kind}, **names)
    for kind in ("LAMB", "LARS", "NVLAMB")
    for name, names in (
        ("fsdp", {"shard": 2}),
        ("tp", {"tp": 2}),
        ("fsdp tp", {"shard": 2, "tp": 2}),
        ("pp", {"pp": 2}),
    )
]

SINGLE = [
    case(f"float32 {one.name}", {"dtype": torch.float32, "clip": one.clip,
         "accumulate": one.accumulate}, **vars(one.parallelism))
    for one in CORE
]  # fmt: skip

ALL = [*TWO, *FOUR, *EIGHT, *OPTIMIZERS, *SINGLE]
