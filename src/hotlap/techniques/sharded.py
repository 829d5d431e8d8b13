"""Parameters, gradients and optimizer state shared out over ranks."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Shard parameters, gradients and optimizer state over ranks (FSDP2)",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.PART,),
    why=(
        "Under DDP every rank holds the whole model, its gradients and its optimizer state. "
        "Sharded, each holds a part and gathers a block's parameters only while it computes with "
        "them: models train that fit on no device, at half again DDP's communication."
    ),
    changes="The order in which gradients are summed.",
    avoid="Leave it off while model and optimizer state fit: DDP then communicates less.",
    claims=(
        Claim(
            "memory by rank falls with the number of ranks, ZeRO stage 3",
            "Rajbhandari et al. 2020, arXiv:1910.02054",
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "from torch.nn.parallel import DistributedDataParallel\n\n"
            "model = DistributedDataParallel(model)\n"
            "optimizer = torch.optim.AdamW(model.parameters())\n",
            "import torch\n"
            "from hotlap.parallel import Parallelism, parallelize\n\n"
            "spread = parallelize(model, Parallelism(data_parallel_shard_degree=-1))\n"
            "optimizer = torch.optim.AdamW(spread.parameters())\n",
        ),
        Example(
            "from torch.distributed.fsdp import fully_shard\n\n"
            "for block in model.blocks:\n"
            "    fully_shard(block)\n"
            "fully_shard(model)\n"
        ),
    ),
)
