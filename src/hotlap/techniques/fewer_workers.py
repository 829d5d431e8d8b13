"""Fewer loader workers: no more processes than the cores that they share with the model."""

from hotlap.core.move import Choice, Keyword
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Use fewer loader workers",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "More worker processes than cores take the cores from the model and from each other, and "
        "each costs memory and a start."
    ),
    changes=(
        "Nothing, as long as samples draw no random numbers. Where they do, each worker has its "
        "own seed, so augmentations differ with the number of workers and parity is judged "
        "statistically."
    ),
    avoid="Leave it alone where the workers mostly wait for a disk or a network, not for a core.",
    claims=(
        Claim(
            "torch warns of more workers than the machine has cores: it 'might get DataLoader "
            "running slow or even freeze'",
            "torch.utils.data.DataLoader",
        ),
    ),
    needs=(
        Need("crowded_workers", "no loader has more worker processes than the machine has cores"),
    ),
    conflicts=("loader_workers",),
    moves=(
        Keyword(
            ("torch.utils.data.DataLoader",),
            "num_workers",
            Choice("num_workers", "fewer_workers"),
            over=tuple(range(2, 257)),
            absent=False,
        ),
    ),
    symptom=Symptom(
        phases=("data", "forward", "backward"),
        says="more loader workers than cores, which take them from the model",
        place="loader",
        gives=0.5,
        sure=False,
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=8)\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=4)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64)\n",
        ),
    ),
    layout_sensitive=True,
    grants=(("crowded_workers", False),),
)
