"""Layers shared out over ranks."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Share the layers out over ranks, and cut the batch into micro-batches",
    group=Group.DISTRIBUTED,
    numerics=Numerics.ROUNDING,
    how=(How.PART,),
    why=(
        "Ranks pass only the activations at a stage's border, the least traffic of all kinds of "
        "parallelism, so that it also works between nodes. Micro-batches keep the stages busy "
        "together; with p stages and m of them a share of (p - 1) / (m + p - 1) stays idle."
    ),
    changes="The order in which the gradients of the micro-batches are summed.",
    avoid="Leave it off while the model fits with sharding: the idle share is lost time.",
    claims=(Claim("chunks = 8, named without a figure", "A2: 'six techniques' article"),),
    examples=(
        Example(
            "for tokens, targets in loader:\n"
            "    optimizer.zero_grad()\n"
            "    criterion(model(tokens), targets).backward()\n"
            "    optimizer.step()\n",
            "from hotlap.parallel import Parallelism, parallelize\n\n"
            "layout = Parallelism(pipeline_parallel_degree=2, pipeline_parallel_microbatches=8)\n"
            "spread = parallelize(model, layout, loss=criterion)\n"
            "for tokens, targets in loader:\n"
            "    optimizer.zero_grad()\n"
            "    spread.pipeline.step(tokens, target=targets)\n"
            "    optimizer.step()\n",
        ),
        Example(
            "from torch.distributed.pipelining import Schedule1F1B\n\n"
            "schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=criterion)\n"
        ),
    ),
)
