"""Cached dataset: decoded samples stay in RAM."""

from hotlap.core.move import Wrap
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Keep decoded samples in RAM",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE, How.PART),
    why=(
        "Every epoch reads, decodes and transforms the same samples again. Kept in RAM, they cost "
        "this once."
    ),
    changes=(
        "Nothing: it is refused when two reads of a sample differ, when a read draws random "
        "numbers, or when the samples would not fit into half of the free memory."
    ),
    avoid=(
        "Leave it off when samples are augmented at random, when each is read only once, and with "
        "worker processes: each would fill a cache of its own and lose it at the epoch's end. "
        "It is therefore raced against loader_workers, not together with it."
    ),
    claims=(
        Claim("named without a figure", "A2: 'six techniques' article"),
        Claim("named without a figure", "A3: data-loading article"),
    ),
    needs=(
        Need("loaders", "the program iterates no DataLoader"),
        Need("map_style", "the dataset is iterable: its samples have no index to keep them by"),
        Need("!in_memory", "the samples lie in RAM as they are"),
        Need("!draws", "reading a sample draws random numbers"),
        Need("loader_serial", "worker processes load the data; each would need its own cache"),
    ),
    conflicts=("loader_workers",),
    moves=(
        Wrap(
            "loader",
            "hotlap.seam.loader:cached_dataset",
            edit="hotlap.source.edits.dataset_cache:cached_dataset",
        ),
    ),
    symptom=Symptom(
        phases=("data",),
        says="the same samples are decoded and transformed again in every epoch",
        place="dataset",
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, shuffle=True)\n",
            "from hotlap.data import CachedDataset\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(CachedDataset(train_set), batch_size=64, shuffle=True)\n",
        ),
        Example(
            "from hotlap.data import CachedDataset\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(CachedDataset(train_set), batch_size=64, shuffle=True)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=8)\n",
        ),
    ),
    whole_epochs=True,
)
