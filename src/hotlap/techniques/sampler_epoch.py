"""Another order of the data in each epoch, on all ranks."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Tell the DistributedSampler which epoch it is",
    group=Group.DISTRIBUTED,
    numerics=Numerics.TRAINING,
    how=(How.ADVICE,),
    why=(
        "DistributedSampler shuffles by its seed and its epoch, so that all ranks draw from one "
        "order. Without set_epoch() the epoch stays 0: each epoch repeats the same order and the "
        "same batches, and the training needs more steps for the same result."
    ),
    changes="From the second epoch on the data come in another order.",
    avoid="Leave it off where the sampler does not shuffle, or the data are seen only once.",
    claims=(Claim("named without a figure", "PyTorch documentation, DistributedSampler"),),
    patterns=(
        Pattern(
            id="sampler_epoch_unset",
            says="every epoch shuffles the data into the same order",
            remedy="call sampler.set_epoch(epoch) at the start of each epoch",
            ignore="the order does not matter, as in evaluation",
            check="hotlap.source.checks.ranks:sampler_epoch_unset",
        ),
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader, DistributedSampler\n"
            "\n"
            "sampler = DistributedSampler(train_set)\n"
            "loader = DataLoader(train_set, sampler=sampler)\n"
            "for epoch in range(10):\n"
            "    for batch in loader:\n"
            "        optimizer.zero_grad()\n"
            "        model(batch).mean().backward()\n"
            "        optimizer.step()\n",
            "from torch.utils.data import DataLoader, DistributedSampler\n"
            "\n"
            "sampler = DistributedSampler(train_set)\n"
            "loader = DataLoader(train_set, sampler=sampler)\n"
            "for epoch in range(10):\n"
            "    sampler.set_epoch(epoch)\n"
            "    for batch in loader:\n"
            "        optimizer.zero_grad()\n"
            "        model(batch).mean().backward()\n"
            "        optimizer.step()\n",
        ),
        Example(
            "from torch.utils.data import DataLoader, DistributedSampler\n"
            "\n"
            "sampler = DistributedSampler(test_set, shuffle=False)\n"
            "loader = DataLoader(test_set, sampler=sampler)\n",
        ),
    ),
)
