"""Inputs around zero, with a spread near one."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Normalise the inputs",
    group=Group.COMPUTE,
    numerics=Numerics.TRAINING,
    how=(How.ADVICE,),
    inference=True,
    why=(
        "Inputs far from zero, or of very different scales, make the loss steep along some axes "
        "and flat along others: the learning rate must fit the steepest, and the rest learns "
        "slowly. With mean 0 and deviation 1 fewer steps are needed."
    ),
    changes="Another optimisation; a trained model needs the same statistics ever after.",
    avoid=(
        "Leave it off for token ids and one-hot inputs, and where the first layer normalises (a "
        "batch normalisation on the input)."
    ),
    claims=(Claim("named without a figure", "A4: '17 tips' article"),),
    examples=(
        Example(
            "from torchvision import transforms\n\nprepare = transforms.ToTensor()\n",
            "from torchvision import transforms\n\n"
            "prepare = transforms.Compose(\n"
            "    [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]\n"
            ")\n",
        ),
        Example("ids = tokenizer(text)\n"),
    ),
)
