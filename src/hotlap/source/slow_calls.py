"""Calls that decode, parse or tokenise: work that is slow for each sample."""

import ast
import re

from hotlap.source.names import Names
from hotlap.source.tree import receiver, text

_SLOW = {
    **dict.fromkeys(
        ["PIL.Image.open", "cv2.imread", "cv2.imdecode", "imageio.imread", "imageio.v2.imread",
         "imageio.v3.imread", "skimage.io.imread", "scipy.misc.imread", "matplotlib.image.imread",
         "torchvision.io.read_image", "torchvision.io.decode_image",
         "torchvision.datasets.folder.default_loader"],
        "decodes an image",
    ),
    **dict.fromkeys(["json.load", "json.loads"], "parses JSON"),
    **dict.fromkeys(["yaml.safe_load", "yaml.load"], "parses YAML"),
    **dict.fromkeys(["pickle.load", "pickle.loads", "torch.load", "joblib.load"], "unpickles"),
    **dict.fromkeys(["pandas.read_csv", "csv.reader", "numpy.loadtxt", "numpy.genfromtxt"],
                    "parses CSV"),
    **dict.fromkeys(["librosa.load", "torchaudio.load", "soundfile.read",
                     "scipy.io.wavfile.read"], "decodes audio"),
    **dict.fromkeys(["librosa.feature.melspectrogram", "librosa.stft", "librosa.feature.mfcc"],
                    "computes a spectrogram"),
    **dict.fromkeys(["cv2.resize", "cv2.warpAffine", "cv2.GaussianBlur", "skimage.transform.resize",
                     "scipy.ndimage.zoom", "scipy.ndimage.rotate"], "transforms an image"),
    **dict.fromkeys(["numpy.load", "numpy.fromfile", "h5py.File", "zarr.open", "scipy.io.loadmat",
                     "pandas.read_parquet"], "reads a file"),
    "nibabel.load": "decodes a volume",
    "pydicom.dcmread": "decodes a scan",
    "xml.etree.ElementTree.parse": "parses XML",
    "cv2.VideoCapture": "decodes video",
    "re.sub": "parses text",
    "re.findall": "parses text",
    "re.split": "parses text",
}  # fmt: skip
_IMAGE_PACKAGES = ("cv2.", "skimage.", "scipy.ndimage.", "PIL.ImageOps.")
_FITTED = re.compile(r"(?:scaler|encoder|vectorizer|imputer|binarizer)$", re.IGNORECASE)
_TOKENIZERS = frozenset({"tokenizer", "word_tokenize", "tokenize"})


def slow_work(names: Names, call: ast.Call) -> str:
    """What a call does that is slow for each sample; empty when it is not known to be."""
    owner = text(receiver(call) or call)
    if owner.endswith("tokenizer") or text(call.func).rpartition(".")[2] in _TOKENIZERS:
        return "tokenises"
    if _FITTED.search(owner) and text(call.func).endswith(".transform"):
        return "transforms one row"
    dotted = names.of(call.func).replace("ElementTree.ElementTree", "ElementTree")
    if dotted in _SLOW:
        return _SLOW[dotted]
    computes = dotted.rpartition(".")[2][:1].islower() and dotted.startswith(_IMAGE_PACKAGES)
    return "transforms an image" if computes else ""
