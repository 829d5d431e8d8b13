"""Persistent workers: keep loader workers alive between epochs."""

from hotlap.core.move import Keyword
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Keep loader workers alive between epochs",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "A DataLoader starts its workers anew at each epoch: processes are forked or spawned, the "
        "dataset is copied or pickled, and the first batch waits for all of it."
    ),
    changes=(
        "torch seeds its workers once, not once an epoch, so from the second epoch on shuffling "
        "draws other random numbers from the same seed: parity is judged statistically. Workers "
        "keep their copy of the dataset; what the training process changes in it between epochs "
        "no longer reaches them."
    ),
    avoid=(
        "Leave it off when the dataset is changed between epochs (set_epoch on the dataset, "
        "growing image sizes) or when idle workers of several loaders would fill the memory."
    ),
    claims=(Claim("named without a figure", "A2: 'six techniques' article"),),
    needs=(
        Need("loader_workers", "no loader has workers"),
        Need("loader_not_persistent", "every loader with workers keeps them between epochs"),
        Need("!dataset_by_epoch", "set_epoch of the dataset would not reach workers that stay"),
        Need("!loader_rebuilt", "the loader is made anew, and its workers end with it"),
    ),
    conflicts=("loader_reuse",),
    joins=("loader_workers",),
    moves=(
        Keyword(
            ("torch.utils.data.DataLoader",),
            "persistent_workers",
            True,
            over=(False,),
            unless=(("num_workers", 0),),
        ),
    ),
    symptom=Symptom(
        phases=("data",),
        says="each epoch starts its loader workers anew",
        place="loader",
        gives=0.5,
        seen="workers_restarted",
        unseen="the loader's workers are not persistent: each epoch would start them anew",
    ),
    patterns=(
        Pattern(
            id="workers_restarted",
            says="the workers are started anew at every epoch",
            remedy="pass persistent_workers=num_workers > 0; torch refuses True without workers",
            ignore="the run has one epoch, or the workers must read a data set that changed",
            check="hotlap.source.checks.loading:workers_restarted",
            hint=True,
            phases=("data", "loader", "evaluation_data"),
        ),
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, num_workers=4)\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, num_workers=4, persistent_workers=True)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, num_workers=0)\n",
        ),
    ),
    layout_sensitive=True,
    whole_epochs=True,
    grants=(("loader_not_persistent", False), ("workers_restarted", False)),
)
