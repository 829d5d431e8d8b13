"""Fixed preprocessing, done once."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Resize images once, before training",
    group=Group.DATA_LOADING,
    numerics=Numerics.TRAINING,
    how=(How.PART,),
    inference=True,
    why=(
        "A photo of twelve megapixels is decoded whole and then shrunk to 224 pixels, for each "
        "sample of each epoch. Stored at nearly the size that is trained on, it costs a fraction "
        "of the decoding and of the reading."
    ),
    changes=(
        "The pixels: a resized image is compressed again, and random crops are cut from the "
        "smaller image. Accuracy usually stays within its noise at a short side of 256 for crops "
        "of 224; only a training run proves it for yours."
    ),
    avoid=(
        "Leave it off when crops need the full resolution, when images are small already, or when "
        "the step does not wait for data."
    ),
    claims=(Claim("named without a figure", "A3: data-loading article"),),
    examples=(
        Example(
            "from torch.utils.data import DataLoader\n"
            "from torchvision.datasets import ImageFolder\n"
            "from torchvision.transforms import Compose, RandomResizedCrop, ToTensor\n\n"
            "photos = ImageFolder('photos', Compose([RandomResizedCrop(224), ToTensor()]))\n"
            "loader = DataLoader(photos, batch_size=64, shuffle=True)\n",
            "# once: hotlap pack photos packed --profile jpeg256\n"
            "from hotlap.data import Loader, Store\n"
            "from hotlap.data.transforms import RandomResizedCrop\n\n"
            "loader = Loader(\n"
            "    Store('packed'), batch_size=64, shuffle=True, transform=RandomResizedCrop(224)\n"
            ")\n",
        ),
        Example(
            "from torch.utils.data import DataLoader, TensorDataset\n\n"
            "loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)\n"
        ),
    ),
)
