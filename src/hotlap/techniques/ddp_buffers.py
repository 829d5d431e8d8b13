"""Buffers that each rank keeps for itself."""

from hotlap.core.move import Keyword
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
    title="Do not send DDP's buffers at every forward pass",
    group=Group.DISTRIBUTED,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    why=(
        "Before every forward pass DistributedDataParallel sends all buffers of rank 0 to the "
        "other ranks, and the pass waits for them. A buffer may be large, such as a queue of "
        "features or a table of masks. The ranks need none of it where each computes its own "
        "alike, or where training does not read it, as with the running statistics of BatchNorm."
    ),
    changes=(
        "Losses stay the same where training reads no buffer that differs between the ranks. The "
        "ranks' running statistics differ: evaluate and save on rank 0, whose own are what all "
        "ranks had before."
    ),
    avoid=(
        "Leave it off when training reads what each rank updates from its own batch (a codebook, "
        "a moving average), or when every rank evaluates with BatchNorm."
    ),
    claims=(
        Claim(
            "buffers are broadcast from rank 0 in every iteration",
            "PyTorch documentation, DistributedDataParallel",
        ),
    ),
    needs=(
        DDP,
        Need("ddp_sends_buffers", "the model has no buffers that DDP sends"),
    ),
    moves=(
        Keyword(
            ("torch.nn.parallel.DistributedDataParallel",),
            "forward_sync_buffers",
            False,
            unless=(("broadcast_buffers", True),),
        ),
    ),
    symptom=Symptom(
        phases=("buffers",),
        says="buffers stay on their rank (forward_sync_buffers=False, which torch called "
        "broadcast_buffers before 2.13)",
        place="ddp",
        work=Work.COMMUNICATION,
    ),
    examples=(
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model)\n",
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, forward_sync_buffers=False)\n",
        ),
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, broadcast_buffers=True)\n",
        ),
    ),
    grants=(("ddp_sends_buffers", False),),
)
