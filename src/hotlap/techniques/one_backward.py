"""One backward pass of a sum, for several through the same graph."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Add losses up, and go backward once",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE,),
    why=(
        "Each backward pass with retain_graph=True goes through all that its loss was computed "
        "from. What several losses share is gone through once for each of them, and once in all "
        "for their sum: the gradients of a sum are the sum of the gradients."
    ),
    changes="The same gradients, added up in another order.",
    avoid="Leave it where the gradients of each loss are looked at or changed by themselves.",
    claims=(Claim("goes beyond the articles", "PyTorch documentation, torch.Tensor.backward"),),
    patterns=(
        Pattern(
            id="backward_each",
            says="several losses go backward through one graph, one after the other",
            remedy="add them up, and call backward once: (a + b).backward(), without retain_graph",
            ignore="a hook looks at the gradients of each loss",
            check="hotlap.source.checks.backwards:backward_each",
            fault=True,
            phases=("backward",),
        ),
    ),
    examples=(
        Example(
            "import torch\n\n"
            "for x, y, mask in loader:\n"
            "    features = model(x)\n"
            "    classes, shape = heads(features)\n"
            "    criterion(classes, y).backward(retain_graph=True)\n"
            "    dice(shape, mask).backward()\n"
            "    optimizer.step()\n",
            "import torch\n\n"
            "for x, y, mask in loader:\n"
            "    features = model(x)\n"
            "    classes, shape = heads(features)\n"
            "    (criterion(classes, y) + dice(shape, mask)).backward()\n"
            "    optimizer.step()\n",
        ),
        Example(
            "import torch\n\n"
            "for x, real in loader:\n"
            "    fake = generator(x)\n"
            "    adversarial(fake).backward(retain_graph=True)\n"
            "    generator_optimizer.step()\n"
            "    distance(fake, real).backward()\n"
            "    other_optimizer.step()\n"
        ),
    ),
)
