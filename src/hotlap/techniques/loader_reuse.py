"""Workers that pass from one DataLoader to the next."""

from hotlap.core.move import Wrap
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Hand loader workers over to the next epoch's loader",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    why=(
        "A DataLoader that is made anew in each epoch starts new workers each time, and "
        "persistent_workers=True does not help, because the workers end with their loader. Here a "
        "loader takes over the workers of the last one with the same dataset and arguments."
    ),
    changes=(
        "Nothing: the sampler and the seed of the workers are drawn as before, and the workers are "
        "seeded anew. Before they serve another epoch, the dataset, the collate function, "
        "worker_init_fn and the globals that these name are compared with what the workers copied; "
        "where something has changed, or cannot be compared, new workers start."
    ),
    avoid=(
        "Leave it off where idle workers of several loaders would fill the memory, or where the "
        "workers depend on something that Python does not see, such as the random generator of a "
        "C library."
    ),
    claims=(Claim("goes beyond the articles", "PyTorch documentation, torch.utils.data"),),
    needs=(
        Need("loader_workers", "no loader has workers"),
        Need("!dataset_by_epoch", "set_epoch of the dataset would not reach workers that stay"),
        Need("loader_rebuilt", "no loader was made anew while the script was profiled"),
    ),
    conflicts=("persistent_workers",),
    joins=("loader_workers",),
    moves=(Wrap("loader", "hotlap.seam.loader_reuse:loader_reuse"),),
    symptom=Symptom(
        phases=("data",),
        says="each epoch makes its loader anew, which starts its workers anew",
        place="loader",
        gives=0.5,
    ),
    patterns=(
        Pattern(
            id="loader_rebuilt",
            says="the loader, and so its workers, is made anew at every epoch",
            remedy="make it once, before the loop over epochs, with persistent_workers=True",
            ignore="the data set really changes from epoch to epoch",
            check="hotlap.source.checks.loading:loader_rebuilt",
            phases=("data", "loader"),
        ),
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "for epoch in range(10):\n"
            "    loader = DataLoader(train_set, 64, shuffle=True, num_workers=4)\n"
            "    for batch in loader:\n"
            "        step(batch)\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(\n"
            "    train_set, 64, shuffle=True, num_workers=4, persistent_workers=True\n"
            ")\n"
            "for epoch in range(10):\n"
            "    for batch in loader:\n"
            "        step(batch)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, 64, num_workers=4, persistent_workers=True)\n"
            "for epoch in range(10):\n"
            "    for batch in loader:\n"
            "        step(batch)\n",
        ),
    ),
    whole_epochs=True,
    grants=(("loader_rebuilt", False), ("workers_restarted", False)),
)
