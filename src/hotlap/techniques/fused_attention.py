"""Attention as one kernel."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Let scaled_dot_product_attention compute attention",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "Written out, attention stores the matrix of all pairs of tokens several times: scores, "
        "mask, softmax, dropout. The fused kernels (flash, memory-efficient, cuDNN) walk over it "
        "in tiles and never store it: less memory traffic, and memory linear in the length."
    ),
    changes=(
        "The softmax is summed in another order. Dropout draws other random numbers. Boolean masks "
        "mean 'may attend', the opposite of what masked_fill is usually given."
    ),
    avoid="Leave it off where the attention weights themselves are read, returned or regularised.",
    claims=(
        Claim("goes beyond the articles", "PyTorch documentation, scaled_dot_product_attention"),
    ),
    patterns=(
        Pattern(
            id="attention_by_hand",
            says="attention written out stores the whole matrix of scores, several times over",
            remedy="call F.scaled_dot_product_attention(q, k, v, attn_mask=..., dropout_p=...)",
            ignore="the weights themselves are needed, or a bias that the fused form does not take",
            check="hotlap.source.checks.attending:attention_by_hand",
            hint=True,
            phases=("forward", "backward"),
            differentiated=True,
        ),
    ),
    examples=(
        Example(
            "import torch\n\n\n"
            "def attend(q, k, v):\n"
            "    scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5\n"
            "    return torch.softmax(scores, dim=-1) @ v\n",
            "import torch\n\n\n"
            "def attend(q, k, v):\n"
            "    return torch.nn.functional.scaled_dot_product_attention(q, k, v)\n",
        ),
        Example(
            "import torch\n\n\n"
            "def attend(q, k, v):\n"
            "    weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1)\n"
            "    return weights @ v, weights\n"
        ),
    ),
)
