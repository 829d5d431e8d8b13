"""DataLoader workers: load and transform samples in other processes."""

from hotlap.core.move import Choice, Keyword
from hotlap.core.pattern import Pattern
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Load batches in worker processes",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE,),
    inference=True,
    why=(
        "With num_workers=0 the training process reads, decodes and collates each batch itself, "
        "and the model waits. Workers do this for the next batches while the model computes."
    ),
    changes=(
        "Nothing, as long as samples draw no random numbers. Where they do, each worker has its "
        "own seed, so augmentations differ from the serial run and parity is judged statistically. "
        "So does the order of samples where iterators of the loader are begun and dropped unread, "
        "as tqdm.auto does: workers ask the sampler, which draws its seed, before they are read."
    ),
    avoid=(
        "Leave it off when batches are already in memory (starting workers and passing tensors "
        "between processes costs more), when the dataset holds CUDA tensors, and for iterable "
        "datasets that do not split themselves by worker: every worker would yield every sample."
    ),
    claims=(
        Claim(
            "MNIST epoch 14.73 -> 3.47 s on a V100 machine with 8 cores, 10.01 -> 9.43 s on a T4 "
            "machine with 2",
            "A1: NVIDIA tuning-guide walk-through",
        ),
        Claim("2x per epoch with 4 workers and pinning", "A4: '17 tips' article"),
        Claim("rule of thumb: 4 workers per GPU", "A0: '18 tips' article, 2022"),
    ),
    needs=(
        Need("loader_serial", "no DataLoader with num_workers=0 feeds the model"),
        Need("map_style", "the dataset is iterable: workers would repeat its samples"),
    ),
    conflicts=("cached_dataset", "fewer_workers"),
    moves=(
        Keyword(
            ("torch.utils.data.DataLoader",),
            "num_workers",
            Choice("num_workers", "worker_counts"),
            over=(0,),
            when="hotlap.seam.loader:may_have_workers",
        ),
    ),
    symptom=Symptom(
        phases=("data",),
        says="the model waits while this process loads the next batch (num_workers=0)",
        place="loader",
    ),
    patterns=(
        Pattern(
            id="serial_loader",
            says="the training process loads each batch itself while the model waits",
            remedy="pass num_workers; `hotlap tune --only loader_workers CMD` finds how many pay",
            ignore="the data set is in memory and a batch is made in well under a millisecond",
            check="hotlap.source.checks.loading:serial_loader",
            hint=True,
            phases=("data", "loader", "evaluation_data"),
        ),
        Pattern(
            id="copied_in_loader",
            says="the loader copies to the device itself, where forked workers cannot use CUDA",
            remedy="return CPU tensors, and copy the whole batch to the device in the step",
            ignore="the device is the CPU in every run",
            check="hotlap.source.checks.datasets:copied_in_loader",
            phases=("data", "loader", "evaluation_data"),
        ),
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, shuffle=True)\n",
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, shuffle=True, num_workers=4)\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, num_workers=8)\n",
        ),
    ),
    layout_sensitive=True,
    grants=(
        ("loader_serial", False),
        ("loader_workers", True),
        ("two_batches_ahead", True),
    ),
)
