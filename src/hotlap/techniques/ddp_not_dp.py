"""One process for each device instead of one for all."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Use DistributedDataParallel instead of DataParallel",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    why=(
        "DataParallel drives all devices from one process: Python's lock serialises them, the "
        "model is copied to every device at each step, inputs and outputs pass through the first "
        "one, and gradients are gathered there. DistributedDataParallel has a process for each "
        "device and reduces gradients while backward still runs."
    ),
    changes=(
        "Each rank normalises over its own batch and draws its own random numbers; the batch size "
        "given to the loader is that of one rank. Gradients are averaged over ranks."
    ),
    avoid="Leave it off with a single device: then neither is needed.",
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A1: NVIDIA tuning-guide walk-through"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    patterns=(
        Pattern(
            id="data_parallel",
            says="the model is copied to every device at each step, all under one Python lock",
            remedy="wrap the model in DistributedDataParallel and launch with torchrun",
            ignore="there is one device in every run",
            check="hotlap.source.checks.devices:data_parallel",
            phases=("copy", "forward", "backward"),
        ),
        Pattern(
            id="gradients_reduced_by_hand",
            says="each gradient is reduced over the ranks by itself, after the backward pass",
            remedy=(
                "wrap the model in DistributedDataParallel, which reduces them in buckets while "
                "the backward pass runs; where it is wrapped already, drop this: it does it again"
            ),
            ignore="the model has few parameters",
            check="hotlap.source.checks.ranks:gradients_reduced_by_hand",
            phases=("optimizer", "backward", "other"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\nmodel = torch.nn.DataParallel(Net().cuda())\n",
            "import torch\n\n"
            "model = torch.nn.parallel.DistributedDataParallel(Net().cuda(), device_ids=[rank])\n",
        ),
        Example("import torch\n\nplain = isinstance(model, torch.nn.DataParallel)\n"),
    ),
)
