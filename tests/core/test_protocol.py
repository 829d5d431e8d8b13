"""What the probe sends arrives as it was: nested dataclasses, lists, tuples, numbers as keys."""

import json
from dataclasses import asdict

import pytest

from hotlap.core.protocol import (
    DatasetReport,
    Holder,
    InputStatistics,
    ModuleReport,
    PackedComparison,
    PhaseTimes,
    ProfilePayload,
    RankTimes,
    ResourceReport,
    SampledLine,
    SharedMemory,
    Taken,
    decode,
)

STEP = PhaseTimes(0.01, 0.009, 0.01, 0.011, 0.012, 40)
FULL = ProfilePayload(
    STEP,
    {"forward": STEP, "data": PhaseTimes(0.004)},
    starved={"forward": 0.1},
    lines={"data": [SampledLine("a.py:3", "f", "x()", 0.5, 9, [("x()", 0.5)])]},
    sampled={"/a.py": {3: {"data": (0.5, 9, [(0, 3, 0.5)])}}},
    facts={"cuda": False, "optimizer": {"name": "SGD"}},
    modules=ModuleReport(input=InputStatistics(0.0, 255.0, True)),
    retained=[Holder("local", "losses", "a.py", 2)],
    resources=ResourceReport([[(0.0, 1), (1.0, 2)]], shm=SharedMemory(1, 2, 3, 4, 5)),
    dataset=DatasetReport(
        taken=Taken([0, 1], ["a.png", "b.png"], [1, None], 0.1),
        packed=PackedComparison(
            "raw", [3, 4], [("Resize", [[3, 4]])], True, pairs=[(0.1, 0.2)], samples=2, bytes=36.0
        ),
    ),
    flops=12.0,
    held={"tf32": ["matmul"]},
    ranks=[RankTimes(1, 9, 0.1, {"data": 0.1}, lines={"data": [SampledLine("a", "f", "x", 0.5)]})],
)


@pytest.mark.parametrize("payload", [FULL, ProfilePayload(STEP, {})], ids=["full", "least"])
def test_a_payload_arrives_as_it_was_sent(payload):
    assert decode(ProfilePayload, json.loads(json.dumps(asdict(payload)))) == payload


def test_what_a_newer_process_adds_is_left_out_what_lacks_is_an_error():
    assert decode(Holder, {**asdict(FULL.retained[0]), "colour": "red"}) == FULL.retained[0]
    with pytest.raises(TypeError, match="path"):
        decode(Holder, {"kind": "local", "name": "losses"})
