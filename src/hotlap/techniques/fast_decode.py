"""Image decoders faster than PIL."""

from hotlap.core.technique import Claim, Example, Group, How, Numerics, Technique

technique = Technique(
    title="Decode images with a faster library than PIL",
    group=Group.DATA_LOADING,
    numerics=Numerics.ROUNDING,
    how=(How.PART,),
    inference=True,
    why=(
        "libjpeg-turbo called directly decodes without PIL's copies and with the interpreter lock "
        "released, so that threads really share the work."
    ),
    changes=(
        "Pixels may differ from PIL's by 1 of 255, by the decoder's chroma upsampling and the "
        "rounding of its resize."
    ),
    avoid=(
        "Leave it off for formats other than JPEG, and where damaged files must be shown as PIL "
        "shows them."
    ),
    claims=(Claim("named without a figure", "A3: data-loading article"),),
    examples=(
        Example(
            "import numpy as np\n"
            "from PIL import Image\n\n\n"
            "def load(path):\n"
            "    return np.asarray(Image.open(path).convert('RGB'))\n",
            "from pathlib import Path\n\n"
            "from hotlap.data import Decoder\n\n"
            "decoder = Decoder()\n\n\n"
            "def load(path):\n"
            "    return decoder(Path(path).read_bytes(), path)\n",
        ),
        Example("import numpy as np\n\nimages = np.load('images.npy', mmap_mode='r')\n"),
    ),
)
