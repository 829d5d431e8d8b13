"""A small model that learns from a large one."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Distil a large model into a small one",
    group=Group.COMPUTE,
    numerics=Numerics.TRAINING,
    how=(How.PART,),
    why=(
        "The teacher's probabilities say more about each sample than its label does, so a small "
        "or pruned model reaches a better quality in as many steps."
    ),
    changes="The loss has a second part, and each step runs the teacher unless it is cached.",
    avoid=(
        "Leave it off where the teacher is no better than the student, and cache the teacher's "
        "outputs where the samples are not augmented at random."
    ),
    claims=(Claim("named without a figure", "A3: data-loading article"),),
    examples=(
        Example(
            "train(student)\n",
            "from hotlap.model import distilled\n\n"
            "with distilled(student, teacher, temperature=2.0):\n"
            "    train(student)\n",
        ),
        Example("student.eval()\nevaluate(student)\n"),
    ),
)
