"""What to do about each finding that belongs to no technique: `hotlap explain NAME` says it."""

from hotlap.core.registry import techniques
from hotlap.profile import findings, sights
from hotlap.profile.advice import ADVICE
from hotlap.profile.micro_batches import NAME as MICRO_BATCHES
from hotlap.profile.outside import NAME as OUTSIDE_OF_TORCH
from hotlap.profile.ranks import EQUAL_WORK, STRAGGLER
from hotlap.profile.small_operators import NAME as SMALL_OPERATORS
from hotlap.profile.torch_warnings import KNOWN
from hotlap.profile.worker_cores import BUSY, LESS

_PATTERNS = {pattern.id for record in techniques().values() for pattern in record.patterns}
MEANINGS = {
    **{one.id: f"{one.says}: {one.remedy}" for one in KNOWN if one.id not in _PATTERNS},
    **{one.id: one.symptom.says for one in ADVICE},
    **sights.MEANINGS,
    "blocking_call": findings.BLOCKS,
    "collective_in_step": findings.COLLECTS,
    OUTSIDE_OF_TORCH: findings.OUTSIDE,
    "slow_line": findings.SLOW_LINE,
    SMALL_OPERATORS: findings.ONE_BY_ONE,
    BUSY: LESS,
    STRAGGLER: (
        f"one rank arrives last, and the others wait for it in every step: {EQUAL_WORK}; where one "
        "phase makes it late, the profile says which, and what to do about that"
    ),
    MICRO_BATCHES: (
        "gradients are accumulated over batches of a few samples, though one batch would fit in "
        "memory: a larger batch with less accumulation, which leaves the step what it is"
    ),
    "storage": (
        "the disk gives all that it can while the steps wait for data: read larger pieces in order "
        "(`hotlap pack`), fewer bytes, or from RAM or a faster disk"
    ),
    "shared_memory": (
        "the batches that workers hand over may need more than /dev/shm has: make it larger "
        "(docker run --shm-size), or lower prefetch_factor"
    ),
    "worker_memory": (
        "the memory of loader workers grows without an end: look for what each sample adds to, or "
        "for a long list of Python objects, which workers copy page by page"
    ),
}
