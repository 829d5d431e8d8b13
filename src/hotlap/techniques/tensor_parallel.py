"""Matrices shared out over ranks."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Share each matrix out over the ranks of a node",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.PART,),
    why=(
        "A pair of linear layers, the first split by columns and the second by rows, needs one "
        "all-reduce for both. Each rank holds and computes its part of every layer, and with "
        "sequence parallelism its part of the activations between them."
    ),
    changes="The order in which the rows' partial products are summed.",
    avoid=(
        "Leave it off between nodes, where its all-reduces cross the slow links, and for layers "
        "so narrow that their parts no longer fill a device."
    ),
    claims=(Claim("a 4096 x 4096 pair, named without a figure", "A2: 'six techniques' article"),),
    examples=(
        Example(
            "import torch\n\noptimizer = torch.optim.AdamW(gpt.parameters())\n",
            "import torch\n"
            "from hotlap.parallel import Parallelism, parallelize\n\n"
            "layout = Parallelism(tensor_parallel_degree=2, sequence_parallel=True)\n"
            "spread = parallelize(gpt, layout, tp_plan='gpt')\n"
            "optimizer = torch.optim.AdamW(spread.parameters())\n",
        ),
        Example(
            "from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module\n\n"
            "parallelize_module(model, mesh, {'up': ColwiseParallel()})\n"
        ),
    ),
)
