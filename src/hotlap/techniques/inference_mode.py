"""Inference mode for a program that does not train."""

from hotlap.core.move import Wrap
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Run models under torch.inference_mode",
    group=Group.COMPUTE,
    numerics=Numerics.ROUNDING,  # nn.TransformerEncoder has a fast path for it
    how=(How.MOVE,),
    switchable=True,
    inference=True,
    why=(
        "With gradients on, each operation records a node of the graph and keeps its inputs, which "
        "nobody uses where nothing trains. Inference mode also leaves out the version counters and "
        "view tracking that no_grad keeps, which shows where operations are small."
    ),
    changes=(
        "Outputs have no graph. hotlap returns them as ordinary tensors; under inference_mode in "
        "source they are inference tensors, which autograd refuses later. nn.TransformerEncoder "
        "may take its fast path, which rounds differently."
    ),
    avoid="Leave it off where gradients of the outputs are taken: saliency maps, attacks.",
    claims=(Claim("goes beyond the articles", "PyTorch documentation, autograd mechanics"),),
    needs=(Need("inference", "the program trains"),),
    moves=(Wrap("root call", "hotlap.seam.evaluation:inference_mode"),),
    symptom=Symptom(
        phases=("forward",),
        says="models under torch.inference_mode, which records nothing",
        place="model",
        gives=0.3,
        sure=False,
    ),
    examples=(
        Example(
            "import torch\n\n\n@torch.no_grad()\ndef predict(model, x):\n    return model(x)\n",
            "import torch\n\n\n"
            "@torch.inference_mode()\ndef predict(model, x):\n    return model(x)\n",
        ),
        Example("def saliency(model, x):\n    model(x).max().backward()\n    return x.grad\n"),
    ),
)
