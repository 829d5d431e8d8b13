"""Prefetch factor: how many batches each loader worker keeps ready."""

from hotlap.core.move import Choice, Keyword
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Let each worker keep more batches ready",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "Each worker loads two batches ahead. Where single batches take much longer than others, "
        "a deeper queue bridges the slow ones."
    ),
    changes="Nothing but memory: workers x prefetch_factor batches are held ready.",
    avoid=(
        "Leave it alone when the workers are slower than the model on average (a queue that is "
        "always empty gains nothing by being longer) or when batches are large."
    ),
    claims=(
        Claim(
            "1200 -> 5800 img/s and GPU use 45 -> 92 % for the loader work as a whole",
            "A2: 'six techniques' article",
        ),
    ),
    needs=(
        Need("loader_workers", "no loader has worker processes"),
        Need("two_batches_ahead", "the script chooses how many batches are loaded ahead"),
    ),
    joins=("loader_workers",),
    moves=(
        Keyword(
            ("torch.utils.data.DataLoader",),
            "prefetch_factor",
            Choice("prefetch_factor", (4, 8)),
            over=(None, 2),
            unless=(("num_workers", 0),),
        ),
    ),
    symptom=Symptom(
        phases=("data",),
        says="more batches loaded ahead, for a loader whose batches take uneven time",
        place="loader",
        gives=0.3,
        sure=False,
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=4)\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=4, prefetch_factor=4)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=0)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, num_workers=4, prefetch_factor=16)\n",
        ),
    ),
)
