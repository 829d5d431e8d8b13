"""What a dataset does in Python for each sample."""

import ast
from collections.abc import Iterator

from hotlap.core.technique import Technique
from hotlap.source.module import Source
from hotlap.source.tree import method, receiver, text
from hotlap.source.values import DATASET

_SLOW = {
    "PIL.Image.open": "decodes an image",
    "cv2.imread": "decodes an image",
    "imageio.imread": "decodes an image",
    "skimage.io.imread": "decodes an image",
    "torchvision.io.read_image": "decodes an image",
    "json.load": "parses JSON",
    "json.loads": "parses JSON",
    "yaml.safe_load": "parses YAML",
    "pickle.load": "unpickles",
    "pickle.loads": "unpickles",
    "torch.load": "unpickles",
    "pandas.read_csv": "parses CSV",
    "csv.reader": "parses CSV",
    "librosa.load": "decodes audio",
    "torchaudio.load": "decodes audio",
    "soundfile.read": "decodes audio",
    "nibabel.load": "decodes a volume",
    "pydicom.dcmread": "decodes a scan",
    "xml.etree.ElementTree.parse": "parses XML",
    "cv2.VideoCapture": "decodes video",
}
_SAMPLE = ("__getitem__", "__getitems__")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def heavy_getitem(source: Source, _: Technique) -> Iterator[tuple[ast.AST, str]]:
    """Decoding, parsing, tokenising and Python loops in `Dataset.__getitem__`."""
    for function in _per_sample(source):
        for node in ast.walk(function):
            if why := _costs(source, node):
                yield node, why


def _per_sample(source: Source) -> list[Function]:
    """`__getitem__` of each dataset, and the functions of the file that it calls."""
    found = [
        function
        for function in source.tree.functions
        if function.name in _SAMPLE and _is_dataset(source, source.tree.parent(function))
    ]
    for function in found:
        for node in ast.walk(function):
            called = source.values.local(node) if isinstance(node, ast.Call) else None
            if isinstance(called, Function) and called not in found:
                found.append(called)
    return found


def _is_dataset(source: Source, owner: ast.AST | None) -> bool:
    return isinstance(owner, ast.ClassDef) and source.values.class_kind(owner) == DATASET


def _costs(source: Source, node: ast.AST) -> str:
    """Why a node is slow for each sample; empty when it is not known to be."""
    if isinstance(node, ast.Call):
        if text(receiver(node) or node).endswith("tokenizer") or _is_tokenizer(node):
            return "tokenises"
        return _SLOW.get(source.names.of(node.func), "")
    if isinstance(node, ast.For) and _outermost(source, node):
        counted = isinstance(node.iter, ast.Call) and source.names.of(node.iter.func) == "range"
        nested = any(isinstance(inner, ast.For) for s in node.body for inner in ast.walk(s))
        return "a Python loop" if counted or nested else ""
    return "a Python loop" if method(node) == "iterrows" else ""


def _is_tokenizer(call: ast.Call) -> bool:
    return text(call.func).rpartition(".")[2] in {"tokenizer", "word_tokenize"}


def _outermost(source: Source, loop: ast.For) -> bool:
    return not any(isinstance(above, ast.For) for above in source.tree.loops(loop))
