"""Batch normalisation over the ranks' batches together."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Normalise over the batches of all ranks",
    group=Group.DISTRIBUTED,
    numerics=Numerics.TRAINING,
    how=(How.PART,),
    why=(
        "With a few samples on each rank the statistics of batch normalisation are noise. Taken "
        "over all ranks they are those of the whole batch, so that a batch can be spread over "
        "more devices without training worse."
    ),
    changes="Statistics, and with them the training: it becomes that of one large batch.",
    avoid=(
        "Leave it off with 32 samples or more on a rank: each layer then waits for all ranks and "
        "gains nothing. It needs CUDA."
    ),
    claims=(Claim("named without a figure", "A1: NVIDIA tuning-guide walk-through"),),
    examples=(
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n\n"
            "model = DistributedDataParallel(model)\n",
            "from torch import nn\n"
            "from torch.nn.parallel import DistributedDataParallel\n\n"
            "model = nn.SyncBatchNorm.convert_sync_batchnorm(model)\n"
            "model = DistributedDataParallel(model)\n",
        ),
        Example(
            "from torch import nn\n\nmodel = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))\n"
        ),
    ),
)
