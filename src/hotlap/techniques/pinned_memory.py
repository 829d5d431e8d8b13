"""Pinned memory: collate batches into page-locked memory."""

from hotlap.core.move import Keyword
from hotlap.core.needs import CUDA
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Collate batches into pinned memory",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "The GPU copies straight out of page-locked memory. Pageable memory must first be staged "
        "through a pinned buffer by the CPU, and the copy cannot overlap with anything."
    ),
    changes="Nothing but where the batch lies. Pinned memory cannot be swapped out.",
    avoid=(
        "Leave it off when the batch stays on the CPU, when host memory is scarce, or when the "
        "collate function already returns tensors on the device."
    ),
    claims=(Claim("MNIST epoch 14.73 -> 13.65 s", "A1: NVIDIA tuning-guide walk-through"),),
    needs=(
        CUDA,
        Need("pageable", "no DataLoader feeds the GPU from pageable memory"),
    ),
    moves=(
        Keyword(
            ("torch.utils.data.DataLoader",),
            "pin_memory",
            True,
            over=(False,),
            when="hotlap.seam.loader:may_pin",
        ),
    ),
    symptom=Symptom(
        phases=("copy",),
        says="batches are copied to the GPU out of pageable memory",
        place="loader",
        gives=0.6,
    ),
    patterns=(
        Pattern(
            id="unpinned_loader",
            says="batches in pageable memory are copied twice on their way to the GPU",
            remedy="pass pin_memory=True",
            ignore="the loop runs on a CPU, or the host's memory is nearly full",
            check="hotlap.source.checks.loading:unpinned_loader",
            hint=True,
            phases=("copy", "data"),
        ),
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "model = Net().cuda()\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=4)\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "model = Net().cuda()\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=4, pin_memory=True)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, pin_memory=True)\n",
        ),
    ),
    grants=(("pageable", False), ("pinned", True)),
)
