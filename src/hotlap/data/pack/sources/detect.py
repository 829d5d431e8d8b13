"""Which kind of source a path is."""

import json
from collections.abc import Callable
from pathlib import Path

from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.arrays import Arrays
from hotlap.data.pack.sources.base import IMAGES, Source
from hotlap.data.pack.sources.batches import torchvision_layout
from hotlap.data.pack.sources.chunks import chunks_in
from hotlap.data.pack.sources.databases import Hdf5File, LmdbFolder
from hotlap.data.pack.sources.folder import SPLITS, ImageFolder
from hotlap.data.pack.sources.table import TableFiles
from hotlap.data.pack.sources.tar import TarShards
from hotlap.data.pack.sources.text import LabelledImages, TextRows, table_in
from hotlap.data.pack.sources.tfrecord import TfRecords
from hotlap.data.pack.sources.tokens import TokenStream

Open = Callable[[list[Path], Settings], Source]
_FILES: dict[str, Open] = {
    ".tar": TarShards,
    ".arrow": lambda paths, how: TableFiles(paths, None, how),
    ".parquet": lambda paths, how: TableFiles(paths, None, how),
    ".npy": lambda paths, how: Arrays.file(paths[0], how),
    ".npz": lambda paths, how: Arrays.file(paths[0], how),
    ".pt": lambda paths, how: Arrays.file(paths[0], how),
    ".pth": lambda paths, how: Arrays.file(paths[0], how),
    ".h5": lambda paths, how: Hdf5File(paths[0], how),
    ".hdf5": lambda paths, how: Hdf5File(paths[0], how),
    ".lmdb": lambda paths, how: LmdbFolder(paths[0], how),
    ".mdb": lambda paths, how: LmdbFolder(paths[0], how),
    ".tfrecord": TfRecords,
    ".tfrecords": TfRecords,
    ".csv": TextRows,
    ".tsv": TextRows,
    ".jsonl": TextRows,
    ".ndjson": TextRows,
    ".json": TextRows,
    ".txt": TextRows,
}
_SINGLE = {".npy", ".npz", ".pt", ".pth", ".h5", ".hdf5", ".lmdb", ".mdb"}
_COMPRESSED = {".gz", ".tgz", ".zst", ".zip", ".xz", ".bz2"}


def source_of(
    path: Path,
    profile: str = "auto",
    dtype: str = "uint16",
    end: int | None = None,
    *,
    how: Settings | None = None,
) -> Source:
    """Open a source by its look.

    Args:
        path: a file or a folder.
        profile: of `Settings`; `tokens` reads a token stream.
        dtype: of tokens.
        end: the token that ends a document.
        how: which field is the label, what is left out, which split is read.

    Raises:
        PackError: it does not exist, is of no known kind, or says too little of its labels.
    """
    how = how or Settings(profile=profile)
    _check(path)
    if profile == "tokens":
        return TokenStream(_all(path, "*.bin") or _all(path, "*.npy"), dtype, end)
    if how.labels is not None:
        if not path.is_dir():
            raise PackError(f"--labels goes with a folder of images, and {path} is a file")
        return LabelledImages(path, Path(how.labels), how)
    return _folder(path, how) if path.is_dir() else _file(path, how)


def outside(source: Path, target: Path) -> None:
    """Refuse a target within its own source: the next packing would read it.

    Raises:
        PackError: it is.
    """
    if source.is_dir() and source.resolve() in target.resolve().parents:
        raise PackError(f"{target} lies in its own source {source}: choose another place")


def _check(path: Path) -> None:
    try:
        path.resolve(strict=True)
    except FileNotFoundError:
        raise PackError(f"{path} does not exist") from None
    except (OSError, RuntimeError):
        raise PackError(f"{path} is a loop of links, or cannot be reached") from None
    if not path.is_dir() and not path.is_file():
        raise PackError(f"{path} is no file and no folder: it cannot be read at random")


def _folder(path: Path, how: Settings) -> Source:
    if (path / "manifest.json").exists() and list(path.glob("*.tab")):
        raise PackError(f"{path} is a hotlap store already")
    if how.split and (path / how.split).is_dir() and not (path / "dataset_dict.json").exists():
        return _folder(path / how.split, how)
    known: Source | None = torchvision_layout(path, how) or chunks_in(path, how)
    if known is None and (path / "data.mdb").exists():
        known = LmdbFolder(path, how)
    saved = ("dataset_dict.json", "state.json")  # by Hugging Face's datasets
    if known is None and any((path / name).exists() for name in saved):
        known = TableFiles.folder(path, how)
    known = known or _several(path, how)
    table = table_in(path) if known is None else None
    return known or (LabelledImages(path, table, how) if table else ImageFolder(path, how))


def _several(path: Path, how: Settings) -> Source | None:
    """Open the files of a folder that are of one known kind; None where there are none."""
    found: dict[str, list[Path]] = {}
    for file in sorted(entry for entry in path.iterdir() if entry.is_file()):
        ending = file.suffix if ".tfrecord" not in file.name else ".tfrecord"
        if ending in _FILES and not (ending == ".json" and _is_about(file)):
            found.setdefault(ending, []).append(file)
    if not found or _has_images(path):
        return None
    if found.keys() <= {".arrow", ".parquet"}:
        return TableFiles.folder(path, how)
    if found.keys() == {".npy"}:
        return Arrays.file(path, how)
    if len(found) > 1 or (found.keys() & _SINGLE and len(next(iter(found.values()))) > 1):
        names = ", ".join(file.name for files in found.values() for file in files[:2])
        raise PackError(f"{path} holds several sources ({names}): name one of them")
    ending, files = next(iter(found.items()))
    if ending not in _SINGLE:
        files = _of_split(path, files, how.split)
    return _FILES[ending](files, how)


def _of_split(path: Path, files: list[Path], split: str | None) -> list[Path]:
    """Return the files of one split, where their names begin with one."""
    stems = {
        file: file.stem.lower().replace("_", "-").replace(".", "-").partition("-")[0]
        for file in files
    }
    splits = {stem for stem in stems.values() if stem in SPLITS}
    if split is not None:
        chosen = [file for file in files if stems[file] == split]
        if not chosen:
            raise PackError(f"--split {split}: no file of {path} begins so")
        return chosen
    if len(splits) > 1:
        raise PackError(
            f"{path} holds several splits ({', '.join(sorted(splits))}): name one, such as "
            f"--split {sorted(splits)[-1]}"
        )
    return files


def _has_images(path: Path) -> bool:
    return any(
        file.suffix.lower() in IMAGES
        for below in (path, *(each for each in path.iterdir() if each.is_dir()))
        for file in below.iterdir()
        if not file.name.startswith(".")
    )


def _is_about(file: Path) -> bool:
    """Whether a JSON file describes the others, rather than being a list of samples."""
    try:
        return not isinstance(json.loads(file.read_bytes()), list)
    except ValueError:
        return False


def _file(path: Path, how: Settings) -> Source:
    plain = Path(path.name.removesuffix(".gz").removesuffix(".bz2"))
    ending = (
        ".tfrecord" if ".tfrecord" in path.name and path.suffix not in _COMPRESSED else path.suffix
    )
    if plain.suffix in {".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".txt"}:
        return TextRows([path], how)
    if ending in _FILES:
        return _FILES[ending]([path], how)
    if path.suffix == ".bin":
        raise PackError(f"{path} looks like a token stream: give --profile tokens")
    if path.suffix in _COMPRESSED:
        raise PackError(f"{path} is compressed, and has no access by number: unpack it first")
    raise PackError(
        f"{path} is of no known kind: expected a folder of images, {', '.join(_FILES)}, or with "
        "--profile tokens .bin. Any map-style dataset is packed from Python: "
        "hotlap.data.pack.pack(dataset, DST)"
    )


def _all(path: Path, pattern: str) -> list[Path]:
    return sorted(path.glob(pattern)) if path.is_dir() else [path] * path.match(pattern)
