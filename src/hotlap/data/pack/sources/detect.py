"""Which kind of source a path is."""

from pathlib import Path

from hotlap.data.errors import PackError
from hotlap.data.pack.sources.arrays import Arrays
from hotlap.data.pack.sources.base import Source
from hotlap.data.pack.sources.folder import ImageFolder
from hotlap.data.pack.sources.table import TableFiles
from hotlap.data.pack.sources.tar import TarShards
from hotlap.data.pack.sources.tokens import TokenStream

_TABLES = {".arrow", ".parquet"}
_ARRAYS = {".npy", ".npz", ".pt", ".pth"}


def source_of(
    path: Path, profile: str = "jpeg", dtype: str = "uint16", end: int | None = None
) -> Source:
    """Open a source by its look.

    Raises:
        PackError: it does not exist, or is of no known kind.

    """
    if not path.exists():
        raise PackError(f"{path} does not exist")
    if profile == "tokens":
        return TokenStream(_all(path, "*.bin") or _all(path, "*.npy"), dtype, end)
    return _folder(path) if path.is_dir() else _file(path)


def _folder(path: Path) -> Source:
    if tars := _all(path, "*.tar"):
        return TarShards(tars)
    if _all(path, "*.arrow") or _all(path, "*.parquet") or (path / "dataset_dict.json").exists():
        return TableFiles.folder(path)
    return Arrays.file(path) if _all(path, "*.npy") else ImageFolder(path)


def _file(path: Path) -> Source:
    if path.suffix == ".tar":
        return TarShards([path])
    if path.suffix in _TABLES:
        return TableFiles([path])
    if path.suffix in _ARRAYS:
        return Arrays.file(path)
    if path.suffix == ".bin":
        raise PackError(f"{path} looks like a token stream: give --profile tokens")
    raise PackError(
        f"{path} is of no known kind: expected a folder of images, .tar, .parquet, .arrow, .npy, "
        ".npz, .pt, .pth, or with --profile tokens .bin"
    )


def _all(path: Path, pattern: str) -> list[Path]:
    return sorted(path.glob(pattern)) if path.is_dir() else [path] * path.match(pattern)
