"""The size of the buckets in which DDP reduces gradients."""

from hotlap.core.move import Choice, Keyword
from hotlap.core.needs import DDP
from hotlap.core.technique import (
    Claim,
    Example,
    Group,
    How,
    Need,
    Numerics,
    Symptom,
    Technique,
    Work,
)

technique = Technique(
    title="Reduce gradients in buckets of another size",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    why=(
        "DistributedDataParallel reduces a bucket of gradients (25 MiB) as soon as backward has "
        "filled it. Small buckets start early and hide behind what is left of backward; large ones "
        "pay the latency of a collective less often. Which is faster depends on the network."
    ),
    changes=(
        "The mean over ranks is the same sum; with three ranks or more it may be added up in "
        "another order."
    ),
    avoid="Leave it off where the whole model is smaller than a bucket, or with a single rank.",
    claims=(
        Claim(
            "the best size differs by model and by backend",
            "Li et al. 2020, PyTorch Distributed: Experiences on Accelerating Data Parallel "
            "Training, VLDB",
        ),
    ),
    needs=(
        DDP,
        Need("several_ranks", "there is one rank: nothing is reduced"),
        Need("ddp_many_gradients", "all gradients fit into the first, small bucket"),
    ),
    moves=(
        Keyword(
            ("torch.nn.parallel.DistributedDataParallel",),
            "bucket_cap_mb",
            Choice("bucket_cap_mb", (5, 100)),
            over=(None, 25),
            when="hotlap.seam.ddp:one_cap",
        ),
    ),
    symptom=Symptom(
        phases=("backward",),
        says="gradient buckets of another size",
        place="ddp",
        gives=0.5,
        sure=False,
        whole=False,
        work=Work.COMMUNICATION,
    ),
    examples=(
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, device_ids=[rank])\n",
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=100)\n",
        ),
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=50)\n",
        ),
    ),
)
