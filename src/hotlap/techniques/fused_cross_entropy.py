"""Cross-entropy without copies of the logits."""

from hotlap.core.move import Swap
from hotlap.core.needs import MODEL, NOT_FUSED
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Compute cross-entropy without copies of the logits",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.MOVE,),
    saves_memory=True,
    why=(
        "Torch's own keeps the logarithmic softmax for the backward pass, which makes the gradient "
        "beside it: with the logits three matrices. Here the logits are kept, and the gradient is "
        "made from them a few rows at a time, in one pass through the cache."
    ),
    changes="The same formula with other roundings, in float32 also for 16-bit logits.",
    avoid=(
        "Leave it off with few classes, where the logits are small. In a model of one's own "
        "hotlap.kernels.linear_cross_entropy goes further: the logits never exist as a whole."
    ),
    claims=(Claim("goes beyond the articles", "Wijmans et al., Cut Your Losses, 2024"),),
    needs=(
        MODEL,
        NOT_FUSED,
        Need("calls_cross_entropy", "no cross-entropy of 1 MiB of logits or more is computed"),
    ),
    moves=(
        Swap(
            ("torch.nn.functional.cross_entropy",),
            "hotlap.kernels.swaps:cross_entropy",
            serves="hotlap.kernels.swaps:serves_cross_entropy",
            written="hotlap.kernels.cross_entropy",
        ),
    ),
    symptom=Symptom(
        phases=("forward", "backward"),
        says="cross-entropy of many classes copies the logits",
        place="model",
        gives=0.1,
        sure=False,
        whole=False,
    ),
    patterns=(
        Pattern(
            id="softmax_before_cross_entropy",
            says="cross-entropy takes the softmax itself: a second one costs a pass "
            "and flattens the gradients",
            remedy="pass the logits to the loss, and take the softmax where probabilities are read",
            ignore="never: the loss of a softmax of a softmax is not meant",
            check="hotlap.source.checks.losses:softmax_before_cross_entropy",
            fault=True,
            phases=("forward", "backward"),
        ),
        Pattern(
            id="dense_targets",
            says="class indices are written out as a matrix of targets before the loss",
            remedy=(
                "F.cross_entropy(logits, targets, label_smoothing=s) takes the indices; where each "
                "of the other K - 1 classes gets s / (K - 1), multiply s by K / (K - 1); a KL "
                "divergence is the same less the entropy of its targets, which is constant"
            ),
            ignore="there are few classes, or some class is to get no share",
            check="hotlap.source.checks.targets:dense_targets",
            phases=("forward", "backward"),
        ),
    ),
    examples=(
        Example(
            "import torch\n\nloss = torch.nn.functional.cross_entropy(logits, target)\n",
            "import torch\n"
            "from hotlap.kernels import cross_entropy\n"
            "\n"
            "loss = cross_entropy(logits, target)\n",
        ),
        Example("import torch\n\nloss = torch.nn.functional.mse_loss(output, target)\n"),
    ),
)
