"""Packed dataset: image files decoded or shrunk once, read as one store."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Read a packed copy of the image files",
    group=Group.DATA_LOADING,
    numerics=Numerics.ROUNDING,
    how=(How.ADVICE, How.PART),
    inference=True,
    why=(
        "A folder of images is opened, read, decoded and resized file by file, again in every "
        "epoch. `hotlap pack` does once what does not vary: a store of rows, or of JPEGs not much "
        "larger than the crops, is read batch by batch, checked, and ahead of need."
    ),
    changes=(
        "Nothing with --profile jpeg, which keeps the files as they are (without --resize) and "
        "decodes them whenever they are read. Rows are resized within 1 "
        "of 255 of PIL's bilinear; smaller JPEGs are encoded anew, and random crops come out of "
        "them. The order of samples is hotlap's own, the same "
        "for any number of workers. The copy takes room on the disk, and has to be made again "
        "when the files change."
    ),
    avoid=(
        "Leave it off where the step does not wait for data, where crops need the full resolution, "
        "and where the files change while training."
    ),
    claims=(
        Claim("tar shards, named without a figure", "A2: 'six techniques' article"),
        Claim(
            "many small files into few large ones, named without a figure",
            "A3: data-loading article",
        ),
    ),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "from torchvision.datasets import ImageFolder\n"
            "\n"
            'loader = DataLoader(ImageFolder("photos", transform), batch_size=64, shuffle=True)\n',
            "from hotlap.data import Loader, transforms\n"
            "\n"
            "steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]\n"
            'loader = Loader("packed", batch_size=64, shuffle=True, transform=steps)\n',
        ),
        Example(
            "from torch.utils.data import DataLoader, TensorDataset\n"
            "\n"
            "loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)\n",
        ),
    ),
)
