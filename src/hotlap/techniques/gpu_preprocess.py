"""Augmentation on the accelerator."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Normalise and augment on the device, batch by batch",
    group=Group.DATA_LOADING,
    numerics=Numerics.ROUNDING,
    how=(How.PART,),
    inference=True,
    why=(
        "A uint8 image is a quarter of its float32 copy, so the transfer shrinks by four, and a "
        "flip or a normalisation of the whole batch is a few kernels on the device instead of "
        "hundreds of small calls on the CPU."
    ),
    changes=(
        "Rounding, and which random numbers an augmentation draws: they are seeded by sample, not "
        "by worker, so that a run can be repeated with any number of workers."
    ),
    avoid=(
        "Leave it off when the device is the bottleneck and the CPU has time to spare, and for "
        "augmentations that have no batched form."
    ),
    claims=(
        Claim("DALI, named without a figure", "A0: '18 tips' article, 2022"),
        Claim("named without a figure", "A3: data-loading article"),
    ),
    examples=(
        Example(
            "for images, labels in loader:\n"
            "    images = images.float().div(255).sub(mean).div(std).cuda()\n",
            "from hotlap.data import Loader, Store\n"
            "from hotlap.data.transforms import Normalize, RandomHorizontalFlip\n\n"
            "loader = Loader(\n"
            "    Store('packed'),\n"
            "    batch_size=64,\n"
            "    transform=[RandomHorizontalFlip(), Normalize(mean, std)],\n"
            "    device='cuda',\n"
            ")\n"
            "for images, labels in loader:\n"
            "    pass\n",
        ),
        Example(
            "for images, labels in loader:\n"
            "    images = images.cuda(non_blocking=True).float().div(255).sub(mean).div(std)\n"
        ),
    ),
)
