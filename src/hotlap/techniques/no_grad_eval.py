"""Evaluation without gradients."""

from hotlap.core.move import Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Evaluate without recording gradients",
    group=Group.DEBUGGING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    switchable=True,
    why=(
        "With gradients on, an evaluation forward records a graph and keeps every activation, "
        "only to throw them away."
    ),
    changes=(
        "Outputs of a model in eval mode have no graph. Training is untouched; some modules "
        "(nn.TransformerEncoder) take a fast path in evaluation that rounds differently."
    ),
    avoid=(
        "Leave it off when a loss computed in eval mode is back-propagated: frozen batch "
        "normalisation, adversarial examples, saliency maps."
    ),
    claims=(
        Claim("named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A4: '17 tips' article"),
    ),
    needs=(
        Need("eval_with_grad", "no evaluation with gradients on was seen"),
        Need("!eval_trained", "the script back-propagates through a model in eval mode"),
    ),
    moves=(
        Wrap(
            "root call",
            "hotlap.seam.evaluation:no_grad_eval",
            edit="hotlap.source.edits.evaluation:no_grad_eval",
        ),
    ),
    symptom=Symptom(
        phases=("evaluation",),
        says="the evaluation records gradients that nobody uses",
        place="evaluation",
        gives=0.4,
    ),
    patterns=(
        Pattern(
            id="eval_with_grad",
            says="this evaluation records gradients, and keeps activations, that nobody uses",
            remedy="put it under torch.no_grad() or torch.inference_mode()",
            ignore="the gradients of the evaluation are used, as for adversarial examples",
            check="hotlap.source.checks.evaluating:eval_with_grad",
            phases=("evaluation",),
        ),
        Pattern(
            id="eval_mode_missing",
            says="the model is evaluated in train mode: dropout drops, batch statistics move",
            remedy="call model.eval() before, and model.train() after",
            ignore="dropout in evaluation is meant, as for Monte Carlo estimates",
            check="hotlap.source.checks.modes:eval_mode_missing",
            phases=("evaluation",),
        ),
        Pattern(
            id="train_mode_lost",
            says="no train() follows: all later epochs train in eval mode",
            remedy="call model.train() at the start of each epoch",
            ignore="the layers are frozen on purpose",
            check="hotlap.source.checks.modes:train_mode_lost",
            phases=("evaluation",),
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "\n"
            "\n"
            "def validate(model, loader):\n"
            "    model.eval()\n"
            "    return sum(accuracy(model(x), y) for x, y in loader)\n"
            "\n"
            "\n"
            "print(validate(model, loader))\n",
            "import torch\n"
            "\n"
            "\n"
            "@torch.no_grad()\n"
            "def validate(model, loader):\n"
            "    model.eval()\n"
            "    return sum(accuracy(model(x), y) for x, y in loader)\n"
            "\n"
            "\n"
            "print(validate(model, loader))\n",
        ),
        Example(
            "def attack(model, x, y):\n    model.eval()\n    criterion(model(x), y).backward()\n",
        ),
        Example(
            "import torch\n"
            "\n"
            "\n"
            "@torch.no_grad()\n"
            "def validate(model, x):\n"
            "    model.eval()\n"
            "    model(x)\n",
        ),
    ),
    grants=(("eval_with_grad", False),),
)
