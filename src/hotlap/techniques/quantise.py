"""Weights of 8 bits or fewer."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Quantise the weights of a trained model",
    group=Group.COMPUTE,
    numerics=Numerics.PRECISION,
    how=(How.PART,),
    why=(
        "An int8 weight takes a quarter of the memory of float32. Where a layer waits for its "
        "weights, as in small batches, reading less is faster, and int8 units multiply at a "
        "higher rate."
    ),
    changes="Each weight is rounded to one of 256 values of its row.",
    avoid=(
        "Leave it off in training without quantisation-aware layers, and for models of "
        "convolutions: linear layers and embeddings are quantised."
    ),
    claims=(Claim("named without a figure", "A3: data-loading article"),),
    examples=(
        Example(
            "model.eval()\noutputs = model(tokens)\n",
            "from hotlap.model import quantize\n\n"
            "small = quantize(model.eval(), 'int8')\n"
            "outputs = small(tokens)\n",
        ),
        Example("model.train()\nloss = criterion(model(images), labels)\n"),
    ),
)
