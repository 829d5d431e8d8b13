"""Device prefetch: the next batch is copied while this one computes."""

from hotlap.core.move import Wrap
from hotlap.core.needs import CUDA
from hotlap.core.technique import Claim, Example, Group, How, Need, Numerics, Symptom, Technique

technique = Technique(
    title="Copy the next batch while this one computes",
    group=Group.DATA_LOADING,
    numerics=Numerics.EXACT,
    how=(How.MOVE, How.PART),
    inference=True,
    why=(
        "A copy on the stream of the kernels runs between them. On a stream of its own the copy "
        "of the next batch overlaps with the computation of this one."
    ),
    changes=(
        "The tensors that the script moves to the GPU arrive there already; the script's own "
        "copies find nothing left to do. One more batch lies in GPU memory. Samples are read one "
        "batch earlier, so where both samples and the model draw from the CPU's random numbers, "
        "they draw in another order."
    ),
    avoid=(
        "Leave it off when the script works on a batch on the CPU before it moves it, or when "
        "copies are a small share of the step."
    ),
    claims=(Claim("apex's data_prefetcher, without a figure", "A3: data-loading article"),),
    needs=(
        CUDA,
        Need("loaders", "no DataLoader is iterated"),
    ),
    joins=("pinned_memory",),
    moves=(
        Wrap(
            "loader",
            "hotlap.seam.prefetch:device_prefetch",
            edit="hotlap.source.edits.batches:device_prefetch",
        ),
    ),
    symptom=Symptom(
        phases=("copy",),
        says="copies to the GPU run between the kernels, not beside them",
        place="copy",
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, pin_memory=True)\n"
            "for images, labels in loader:\n"
            "    loss = criterion(model(images.to(device)), labels.to(device))\n",
            "from hotlap.data import DevicePrefetcher\n"
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64, pin_memory=True)\n"
            "for images, labels in DevicePrefetcher(loader, device):\n"
            "    loss = criterion(model(images.to(device)), labels.to(device))\n",
        ),
        Example(
            "from torch.utils.data import DataLoader\n"
            "\n"
            "loader = DataLoader(train_set, batch_size=64)\n"
            "for images, labels in loader:\n"
            "    loss = criterion(model(images), labels)\n",
        ),
    ),
    layout_sensitive=True,
)
