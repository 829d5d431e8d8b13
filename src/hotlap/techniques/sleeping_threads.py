"""OpenMP threads that spin while other programs use the cores."""

from hotlap.core.move import Env
from hotlap.core.needs import MODEL
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Let OpenMP threads sleep while they wait",
    group=Group.COMPUTE,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "OpenMP threads spin while they wait for one another, and between two operations. Where "
        "other programs or loader workers use the cores, a thread that spins holds the core that "
        "the thread it waits for needs. A thread that sleeps gives it up at once."
    ),
    changes="Nothing but how threads wait: GNU's OpenMP heeds the first variable, Intel's both.",
    avoid="Leave it off on an idle machine: a thread that sleeps takes longer to go on.",
    load_dependent=True,
    claims=(Claim("goes beyond the articles", "GNU libgomp manual, OMP_WAIT_POLICY"),),
    needs=(
        MODEL,
        Need("contended_threads", "torch's threads were not seen to wait for a core and to spin"),
    ),
    grants=(("contended_threads", False),),
    moves=(Env("OMP_WAIT_POLICY", "passive"), Env("KMP_BLOCKTIME", "0")),
    symptom=Symptom(
        # Threads that wait for a core slow down every phase, so that no share bounds the gain.
        phases=("forward", "backward", "optimizer", "copy", "data", "evaluation", "other"),
        says=(
            "OpenMP threads spin while they wait for one another and for a core, which stretches "
            "the step; `OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 CMD` lets them sleep"
        ),
        place="model",
        gives=0.9,
        whole=False,
        seen="threads_waited",
        unseen=(
            "an OpenMP thread that waits keeps its core busy, which other programs want, unless "
            "these variables let it sleep; this profile ran with them, your own runs do not: "
            "`OMP_WAIT_POLICY=passive KMP_BLOCKTIME=0 CMD`"
        ),
    ),
    examples=(Example("import torch\n\nmodel = Net()\n"),),
)
