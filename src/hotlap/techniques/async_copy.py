"""Asynchronous copies from pinned memory to the GPU."""

from hotlap.core.move import Wrap
from hotlap.core.needs import CUDA
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Copy to the GPU without waiting",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "A blocking copy makes the CPU wait for its end before it can queue the next kernel. "
        "From pinned memory, non_blocking=True lets the copy and the CPU run side by side."
    ),
    changes=(
        "Nothing, as long as the host tensor is not written to before the copy has ended. Only "
        "copies from pinned host memory to a CUDA device are touched, never the way back."
    ),
    avoid=(
        "Leave it off when one pinned buffer is refilled for every batch without waiting for the "
        "previous copy: the GPU would read half of the next batch."
    ),
    claims=(
        Claim(
            "MNIST epoch 13.126 -> 13.125 s, with workers 6.843 -> 6.776 s",
            "A1: NVIDIA tuning-guide walk-through",
        ),
    ),
    needs=(
        CUDA,
        Need("h2d_blocking", "no blocking copy from host to GPU was seen"),
        Need("pinned", "nothing is copied to the GPU out of pinned memory"),
    ),
    joins=("pinned_memory",),
    moves=(
        Wrap(
            "tensor",
            "hotlap.seam.tensor:async_copy",
            edit="hotlap.source.edits.batches:async_copy",
        ),
    ),
    symptom=Symptom(
        phases=("copy",),
        says="the CPU waits for each copy to the GPU",
        place="copy",
        gives=0.8,
    ),
    patterns=(
        Pattern(
            id="blocking_copy",
            says="the CPU waits for each copy of a pinned batch to the GPU",
            remedy="pass non_blocking=True",
            ignore="the copy is outside of the training loop",
            check="hotlap.source.checks.copies:blocking_copy",
            phases=("copy",),
        ),
        Pattern(
            id="pageable_copy",
            says="the CPU waits for each copy of a batch to the GPU",
            remedy="pin the batches (pin_memory=True) and pass non_blocking=True",
            ignore="the batch is a few kilobytes, or the loop runs on a CPU",
            check="hotlap.source.checks.copies:pageable_copy",
            hint=True,
            phases=("copy",),
        ),
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, pin_memory=True)\n"
            "for images, labels in loader:\n"
            "    images = images.to(device)\n"
            "    labels = labels.cuda()\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, pin_memory=True)\n"
            "for images, labels in loader:\n"
            "    images = images.to(device, non_blocking=True)\n"
            "    labels = labels.cuda(non_blocking=True)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, pin_memory=True)\n"
            "for images, labels in loader:\n"
            "    images = images.to(device, non_blocking=True)\n"
            "    predictions = model(images).cpu()\n",
        ),
        Example(
            "model = model.to(device)\n",
        ),
        Example(
            "predictions = outputs.cpu()\n",
        ),
    ),
    grants=(("h2d_blocking", False),),
)
