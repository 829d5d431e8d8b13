"""Learning-rate schedules, and the test that sets their peak."""

from hotlap.core.move import Choice, Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Warm up, decay, and find the peak by a range test",
    group=Group.OPTIMIZER,
    numerics=Numerics.TRAINING,
    how=(How.MOVE, How.PART),
    why=(
        "A step is no faster, but fewer are needed: a rate near the largest that the model bears, "
        "reached by a warm-up and left by a decay, gets to the same loss in fewer epochs than a "
        "cautious constant one."
    ),
    changes="The optimisation itself; what was tuned for a constant rate has to be tuned again.",
    avoid=(
        "Leave it off when a schedule was already tuned for this model, and when you compare with "
        "a published run."
    ),
    claims=(Claim("10x fewer iterations for ResNet-56 with one-cycle", "A4: '17 tips' article"),),
    moves=(
        Wrap("step", "hotlap.seam.training:one_cycle", Choice("steps", (1000,), largest=10**9)),
    ),
    patterns=(
        Pattern(
            id="constant_learning_rate",
            says="the learning rate stays the same from the first step to the last",
            remedy="a warm-up and a decay from torch.optim.lr_scheduler",
            ignore="a short run, or an adversarial one that is known to need a constant rate",
            check="hotlap.source.checks.absent:constant_learning_rate",
            hint=True,
            absent=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n"
            "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"
            "for batch in loader:\n"
            "    optimizer.zero_grad()\n"
            "    model(batch).backward()\n"
            "    optimizer.step()\n",
            "# the peak found by: hotlap lr python train.py\n"
            "import torch\n"
            "from hotlap.optim import cosine\n\n"
            "optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)\n"
            "schedule = cosine(optimizer, steps=len(loader), warmup=len(loader) // 10)\n"
            "for batch in loader:\n"
            "    optimizer.zero_grad()\n"
            "    model(batch).backward()\n"
            "    optimizer.step()\n"
            "    schedule.step()\n",
        ),
        Example(
            "import torch\n\n"
            "schedule = torch.optim.lr_scheduler.OneCycleLR(\n"
            "    optimizer, max_lr=0.1, total_steps=len(loader)\n"
            ")\n"
            "for batch in loader:\n"
            "    optimizer.zero_grad()\n"
            "    model(batch).backward()\n"
            "    optimizer.step()\n"
            "    schedule.step()\n"
        ),
    ),
)
