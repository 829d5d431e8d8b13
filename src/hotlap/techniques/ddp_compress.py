"""Gradients sent in 16 bits."""

from hotlap.core.move import Choice, Wrap
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
    title="Reduce gradients over ranks in 16 bits",
    group=Group.DISTRIBUTED,
    numerics=Numerics.PRECISION,
    how=(How.MOVE,),
    why=(
        "Where the network is slower than backward, the step waits for the all-reduce. A "
        "communication hook sends each bucket in 16 bits, half the bytes, and widens the mean "
        "again."
    ),
    changes=(
        "Each gradient is rounded to 8 bits of precision (bfloat16) or 11 (float16, whose range is "
        "small: gradients below 6e-8 become zero) before it is summed. The ranks stay equal."
    ),
    avoid=(
        "Leave it off between ranks that share a memory or a fast link: casting costs more than "
        "sending. Leave it off where the script registers a communication hook of its own."
    ),
    claims=(
        Claim("half the bytes on the network", "PyTorch documentation, DDP communication hooks"),
    ),
    needs=(
        DDP,
        Need("several_ranks", "there is one rank: nothing is sent"),
        Need("float32_model", "the gradients are not float32"),
        Need("!ddp_hooked", "the script has a communication hook of its own"),
    ),
    moves=(
        Wrap(
            "backward",
            "hotlap.seam.ddp:compressed",
            Choice("dtype", ("bfloat16", "float16")),
            edit="hotlap.source.edits.ddp:compressed",
        ),
    ),
    symptom=Symptom(
        phases=("backward",),
        says="gradients sent in 16 bits",
        place="ddp",
        gives=0.5,
        sure=False,
        whole=False,
        work=Work.COMMUNICATION,
    ),
    examples=(
        Example(
            "import torch\n"
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model)\n",
            "import torch\n"
            "from hotlap.parallel.hooks import narrowed\n"
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model)\n"
            "model.register_comm_hook(None, narrowed(torch.bfloat16))\n",
        ),
        Example(
            "from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook\n"
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model)\n"
            "model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)\n",
        ),
    ),
    grants=(("ddp_hooked", True),),
)
