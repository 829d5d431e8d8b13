"""Gradients that lie in the buckets they are reduced in."""

from hotlap.core.move import Keyword
from hotlap.core.needs import DDP
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Let gradients be views into DDP's buckets",
    group=Group.DISTRIBUTED,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    why=(
        "DistributedDataParallel copies each gradient into a bucket, reduces the bucket over the "
        "ranks and copies the mean back. As views the gradients lie in the buckets from the start: "
        "both copies fall away, and so does the memory of a second set of gradients."
    ),
    changes=(
        "Values stay the same. A gradient is part of a larger tensor: it cannot be detached in "
        "place or given other storage, and its address moves once, after the first step."
    ),
    avoid=(
        "Leave it off when the script calls detach_() on gradients, swaps their storage, or keeps "
        "references to them over the first step."
    ),
    claims=(
        Claim(
            "peak memory less by the size of the gradients; the copies saved",
            "PyTorch documentation, DistributedDataParallel",
        ),
    ),
    needs=(
        DDP,
        Need("ddp_copies_gradients", "the gradients are views into the buckets already"),
    ),
    moves=(
        Keyword(
            ("torch.nn.parallel.DistributedDataParallel",),
            "gradient_as_bucket_view",
            True,
            over=(False,),
        ),
    ),
    symptom=Symptom(
        phases=("backward",),
        says="gradients as views of their bucket, without copies",
        place="ddp",
        gives=0.3,
        sure=False,
        whole=False,
    ),
    patterns=(
        Pattern(
            id="gradients_beside_buckets",
            says="each gradient is copied into DDP's bucket and back at every step",
            remedy="pass gradient_as_bucket_view=True",
            ignore="code detaches or replaces gradients in place",
            check="hotlap.source.checks.ranks:gradients_beside_buckets",
            hint=True,
            phases=("backward",),
        ),
    ),
    examples=(
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model)\n",
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, gradient_as_bucket_view=True)\n",
        ),
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(model, gradient_as_bucket_view=True)\n",
        ),
    ),
    grants=(("ddp_copies_gradients", False),),
)
