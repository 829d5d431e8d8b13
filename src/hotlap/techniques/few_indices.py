"""A few random samples, drawn without a permutation or a copy of all."""

from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Draw a few samples without shuffling or copying all of them",
    group=Group.DATA_LOADING,
    numerics=Numerics.TRAINING,
    how=(How.ADVICE,),
    why=(
        "torch.randperm(n)[:k], and numpy.random.choice(n, k, replace=False), shuffle all n "
        "numbers to give k of them. In a step that draws a batch from a replay buffer or a data "
        "set in memory, that can take longer than the model does. random.sample and NumPy's "
        "Generator.choice draw k distinct numbers in a time that does not grow with n. A list of "
        "samples that is stacked whole before k of them are drawn is copied at each step. An "
        "element in the middle of a collections.deque is found by walking along the deque, which "
        "takes the longer the more it holds: a list finds each at once."
    ),
    changes="Other random numbers are drawn.",
    avoid="Leave it where k is a good part of n, or where the permutation is kept for an epoch.",
    claims=(Claim("goes beyond the articles", "numpy.random.Generator.choice documentation"),),
    patterns=(
        Pattern(
            id="shuffled_for_a_few",
            says="all indices are shuffled to draw a few of them",
            remedy="torch.randint(n, (k,)), which may draw one of them twice, or "
            "numpy.random.default_rng().choice(n, k, replace=False, shuffle=False) with a "
            "generator that is made once",
            ignore="a good part of them is drawn, or there are only a few thousand",
            check="hotlap.source.checks.distributions:shuffled_for_a_few",
            fault=True,
            phases=("data", "other", "forward"),
        ),
        Pattern(
            id="stacked_for_a_few",
            says="all samples are copied into one tensor, to draw a few of them",
            remedy="draw the indices first and stack those samples alone, or keep all of them in "
            "one tensor from the beginning",
            ignore="a good part of them is drawn, or there are only a few",
            check="hotlap.source.checks.distributions:stacked_for_a_few",
            fault=True,
            phases=("data", "other", "forward"),
        ),
        Pattern(
            id="drawn_from_deque",
            says="samples are found by walking along a deque, from its nearer end",
            remedy="keep them in a list of a fixed length and overwrite the oldest at an index "
            "that goes round, or in tensors allocated once",
            ignore="the deque is short",
            check="hotlap.source.checks.distributions:drawn_from_deque",
            fault=True,
            phases=("data", "other", "forward"),
        ),
    ),
    examples=(
        Example(
            "import torch\n"
            "\n"
            "for step in range(steps):\n"
            "    batch = images[torch.randperm(len(images))[:64]]\n"
            "    loss = train(batch)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n",
            "import torch\n"
            "\n"
            "for step in range(steps):\n"
            "    batch = images[torch.randint(len(images), (64,))]\n"
            "    loss = train(batch)\n"
            "    loss.backward()\n"
            "    optimizer.step()\n",
        ),
        Example(
            "import torch\n"
            "\n"
            "for epoch in range(epochs):\n"
            "    order = torch.randperm(len(images))\n"
            "    for begin in range(0, len(images), 64):\n"
            "        batch = images[order[begin : begin + 64]]\n"
            "        loss = train(batch)\n"
            "        loss.backward()\n"
            "        optimizer.step()\n",
        ),
    ),
)
