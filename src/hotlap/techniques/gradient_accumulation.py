"""Large batches in several small ones."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Accumulate gradients over several batches, each with its share",
    group=Group.OPTIMIZER,
    numerics=Numerics.TRAINING,
    how=(How.ADVICE, How.PART),
    why=(
        "A batch that does not fit in memory is computed in k parts, and the optimizer (with its "
        "reduction over ranks) runs once for all of them."
    ),
    changes=(
        "The step is that of a batch k times as large if each loss is divided by k; batch "
        "normalisation still sees the parts. Undivided, gradients are k times too large. Without a "
        "step for the last, incomplete group, its gradients are lost or join the next epoch's."
    ),
    avoid="Leave it off where the whole batch fits: one large batch is faster than its parts.",
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A2: 'six techniques' article"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    patterns=(
        Pattern(
            id="undivided_accumulation",
            says="gradients of several batches are summed, each at full weight",
            remedy="divide the loss by the number of batches before backward()",
            ignore="the learning rate was chosen for the sum of the gradients",
            check="hotlap.source.checks.accumulating:undivided_accumulation",
            phases=("backward",),
        ),
        Pattern(
            id="dropped_last_group",
            says="the batches after the last whole group get no step of their own",
            remedy="step at the last batch too: `or i + 1 == len(loader)`",
            ignore="the rest is dropped on purpose",
            check="hotlap.source.checks.accumulating:dropped_last_group",
            hint=True,
            phases=("optimizer",),
        ),
    ),
    examples=(
        Example(
            "import torch\n\n"
            "for i, batch in enumerate(loader):\n"
            "    loss = model(batch)\n"
            "    loss.backward()\n"
            "    if (i + 1) % 4 == 0 or i + 1 == len(loader):\n"
            "        optimizer.step()\n"
            "        optimizer.zero_grad()\n",
            "import torch\n\n"
            "for i, batch in enumerate(loader):\n"
            "    loss = model(batch)\n"
            "    (loss / 4).backward()\n"
            "    if (i + 1) % 4 == 0 or i + 1 == len(loader):\n"
            "        optimizer.step()\n"
            "        optimizer.zero_grad()\n",
        ),
        Example(
            "import torch\n\n"
            "for i, batch in enumerate(loader):\n"
            "    optimizer.zero_grad()\n"
            "    model(batch).backward()\n"
            "    optimizer.step()\n"
            "    if i % 4 == 0:\n"
            "        print(i)\n"
        ),
    ),
)
