"""What is written can be read by the library, whatever the layout."""

import random

import pytest

from hotlap.parallel.parallelism import Parallelism
from hotlap.plan.cluster import PRESETS
from hotlap.plan.emit import parallelism, toml, torchrun
from hotlap.plan.layout_search import search
from hotlap.plan.number_formats import Precision
from hotlap.plan.shape import KNOWN


@pytest.mark.parametrize("precision", list(Precision))
def test_every_layout_comes_back_as_it_was(tmp_path, precision):
    cluster, batch = PRESETS["h200"].having(64), 512
    plans = search(KNOWN["llama3-8b"], cluster, batch, precision)
    path = tmp_path / "layout.toml"
    for found in random.sample(plans.fitting, 30):
        layout = found.layout
        path.write_text(toml(layout, batch))
        read = Parallelism.from_toml(path)
        assert read == parallelism(layout, batch)
        assert read.world == layout.world
        assert (read.fsdp, read.ddp) == (layout.fsdp, layout.ddp)
        assert read.data_parallel_shard_degree == layout.shard
        assert read.tensor_parallel_degree == layout.tensor
        if layout.pipeline > 1:
            assert read.microbatches == layout.micro_batches(batch)
        assert bool(read.mixed_precision_param) == (precision is Precision.MIXED and layout.fsdp)


def test_the_line_that_starts_it_names_every_rank():
    assert "--nnodes 8 --nproc-per-node 8" in torchrun(PRESETS["h100"].having(64))
    assert "--standalone --nproc-per-node 2" in torchrun(PRESETS["h100"].having(2))
