"""One reduction for several micro-batches."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Reduce gradients once a step, not once a micro-batch",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE, How.PART),
    why=(
        "DistributedDataParallel reduces gradients over the ranks in each backward pass. Where "
        "several of them are accumulated for one step, only the last has to: within no_sync() the "
        "others add up locally, and the network carries a k-th of the bytes."
    ),
    changes=(
        "The mean over ranks is taken of the sum instead of the sum of the means: the same up to "
        "rounding. The forward pass has to lie within no_sync() too."
    ),
    avoid=(
        "Leave it off with static_graph=True, unless every micro-batch of the first step is "
        "synchronised: torch fails with an internal assertion (PyTorch issue 143580)."
    ),
    claims=(
        Claim(
            "named without a figure",
            "PyTorch documentation, DistributedDataParallel.no_sync",
        ),
    ),
    patterns=(
        Pattern(
            id="synced_accumulation",
            says="gradients are reduced over the ranks at every micro-batch of a step",
            remedy="run all but the last micro-batch's forward and backward under model.no_sync()",
            ignore="memory is too short for gradients that are not reduced",
            check="hotlap.source.checks.ranks:synced_accumulation",
            phases=("backward",),
            part_of="ddp_reducing",
        ),
        Pattern(
            id="static_graph_unsynced",
            says="torch fails with an internal assertion where no_sync() meets a static graph",
            remedy="leave static_graph out, or synchronise every micro-batch of the first step",
            ignore="never: torch fails there",
            check="hotlap.source.checks.ranks:static_graph_unsynced",
        ),
    ),
    examples=(
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(net)\n"
            "for i, batch in enumerate(loader):\n"
            "    loss = model(batch).mean() / 4\n"
            "    loss.backward()\n"
            "    if (i + 1) % 4 == 0:\n"
            "        optimizer.step()\n"
            "        optimizer.zero_grad()\n",
            "from contextlib import nullcontext\n"
            "\n"
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(net)\n"
            "for i, batch in enumerate(loader):\n"
            "    last = (i + 1) % 4 == 0\n"
            "    with nullcontext() if last else model.no_sync():\n"
            "        loss = model(batch).mean() / 4\n"
            "        loss.backward()\n"
            "    if last:\n"
            "        optimizer.step()\n"
            "        optimizer.zero_grad()\n",
        ),
        Example(
            "from torch.nn.parallel import DistributedDataParallel\n"
            "\n"
            "model = DistributedDataParallel(net)\n"
            "for batch in loader:\n"
            "    optimizer.zero_grad()\n"
            "    model(batch).mean().backward()\n"
            "    optimizer.step()\n",
        ),
    ),
)
