"""Optimizers that stay stable at large batches."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Train large batches with LARS, LAMB or NVLAMB",
    group=Group.OPTIMIZER,
    numerics=Numerics.TRAINING,
    how=(How.PART,),
    why=(
        "With more devices the batch grows, and one rate for all layers makes some of them "
        "diverge. Scaling each layer's step to the norm of its weights keeps batches of thousands "
        "trainable, so that the devices can be used."
    ),
    changes=(
        "The optimisation itself: learning rate, warm-up and weight decay have to be found again."
    ),
    avoid=(
        "Leave it off at ordinary batch sizes: AdamW or SGD with momentum converge as well and "
        "step faster."
    ),
    claims=(
        Claim("BERT pre-training 81 h -> 76 min with LAMB", "A1: NVIDIA tuning-guide walk-through"),
    ),
    examples=(
        Example(
            "import torch\n\n"
            "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)\n",
            "from hotlap.optim import LAMB, no_decay_groups\n\n"
            "optimizer = LAMB(no_decay_groups(model, weight_decay=0.01), lr=2e-2)\n",
        ),
        Example("import torch\n\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"),
    ),
)
