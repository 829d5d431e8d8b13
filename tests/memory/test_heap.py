import resource
import subprocess
import sys

import pytest

from hotlap.common.heap import available
from hotlap.memory import heap_kept, keep_heap

LOOP = """
import resource, sys
import torch
from hotlap.memory import heap_kept, keep_heap

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def loop():
    for _ in range(20):
        torch.ones(3_000_000).mul(2)

assert keep_heap(int(sys.argv[1]))
assert heap_kept() == int(sys.argv[1])
loop()
before = faults()
loop()
print(faults() - before)
"""
ALLOCATED = 40 * 3_000_000 * 4 // resource.getpagesize()

pytestmark = pytest.mark.skipif(not available(), reason="this C library has nothing to set")


def faults(size):
    done = subprocess.run(
        [sys.executable, "-c", LOOP, str(size)], stdout=subprocess.PIPE, check=True
    )
    return int(done.stdout)


def test_kept_memory_is_not_taken_anew():
    assert faults(2**30) < ALLOCATED / 10


def test_nothing_is_kept_at_the_thresholds_of_the_beginning():
    assert faults(0) > ALLOCATED / 2


@pytest.mark.parametrize("size", [-1, 2**31])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(ValueError, match=f"size is {size}"):
        keep_heap(size)
    assert heap_kept() == 0
