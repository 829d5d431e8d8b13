"""Fewer channels and hidden units in a trained model."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Prune channels and hidden units of a trained model",
    group=Group.COMPUTE,
    numerics=Numerics.TRAINING,
    how=(How.PART,),
    why=(
        "Whole channels with small weights are removed, so that the layers stay dense and every "
        "kernel has less to compute. Single weights set to zero save nothing on most devices."
    ),
    changes="It is another model: it has to be fine-tuned, and its quality measured anew.",
    avoid=(
        "Leave it off while a model is still being designed, and where the quality has no margin: "
        "`hotlap shrink` measures both sides."
    ),
    claims=(Claim("named without a figure", "A3: data-loading article"),),
    examples=(
        Example(
            "model.load_state_dict(torch.load('model.pt'))\nfine_tune(model)\n",
            "from hotlap.model import prune\n\n"
            "model.load_state_dict(torch.load('model.pt'))\n"
            "model = prune(model, (images,), 0.5)\n"
            "fine_tune(model)\n",
        ),
        Example("model = build()\ntrain_from_scratch(model)\n"),
    ),
)
