"""Token streams."""

from collections.abc import Sequence
from pathlib import Path

from hotlap.common.extras import Array, need
from hotlap.data.errors import PackError
from hotlap.data.pack.sources.base import Plain, Sample, stamps

BLOCK = 65_536
_HEADER_BYTES, _MAGIC = 1024, 20240520  # of llm.c's and modded-nanogpt's .bin files
_DTYPES = ("uint16", "uint32")


class TokenStream(Plain):
    """Files of tokens, one after the other, kept in blocks of 65,536.

    Args:
        paths: `.bin` files of plain uint16 or uint32 (llm.c's header is skipped), or 1-D `.npy`.
        dtype: of the `.bin` files.
        end: the token that ends a document; the store then knows where documents begin.
    """

    kind = "token stream"
    profile = "tokens"

    def __init__(self, paths: Sequence[Path], dtype: str = "uint16", end: int | None = None):
        numpy = need("numpy")
        if dtype not in _DTYPES:
            raise PackError(f"tokens are {' or '.join(_DTYPES)}, not {dtype}")
        self._paths = list(paths)
        self._parts = [_opened(path, dtype) for path in self._paths]
        if len({part.dtype for part in self._parts}) != 1:
            raise PackError("the token files differ in dtype")
        self._dtype = self._parts[0].dtype
        self._ends = numpy.cumsum([len(part) for part in self._parts])
        self._end = end
        if not self._ends[-1]:
            raise PackError(f"there are no tokens in {self._paths[0]}")

    def __len__(self) -> int:
        return (int(self._ends[-1]) + BLOCK - 1) // BLOCK

    def read(self, index: int) -> Sample:
        """Return one block, as bytes."""
        return Sample(self.span(index * BLOCK, (index + 1) * BLOCK).tobytes(), self.name(index))

    def span(self, start: int, end: int) -> Array:
        """Return the tokens from `start` to `end` (or the stream's end)."""
        numpy = need("numpy")
        pieces = []
        for part, after in zip(self._parts, self._ends.tolist(), strict=True):
            before = after - len(part)
            if start < after and end > before:
                pieces.append(part[max(start - before, 0) : end - before])
        span: Array = numpy.concatenate(pieces)
        return span

    def name(self, index: int) -> str:
        """Return the block's place in the stream."""
        return f"tokens {index * BLOCK} to {min((index + 1) * BLOCK, int(self._ends[-1]))}"

    def identity(self) -> str:
        """Return a digest of names, sizes and times."""
        return stamps(self._paths)

    def about(self) -> dict[str, object]:
        """Return dtype, count, block and the token that ends documents."""
        tokens = int(self._ends[-1])
        return {"dtype": self._dtype.str, "tokens": tokens, "block": BLOCK, "end": self._end}

    def tables(self) -> dict[str, Array]:
        """Return where documents begin."""
        if self._end is None:
            return {}
        numpy = need("numpy")
        starts = [numpy.zeros(1, "i8")]
        for index in range(len(self)):
            block = self.span(index * BLOCK, (index + 1) * BLOCK)
            starts.append((block == self._end).nonzero()[0] + index * BLOCK + 1)
        found = numpy.concatenate(starts)
        return {"documents": found[found < self._ends[-1]]}


def _opened(path: Path, dtype: str) -> Array:
    numpy = need("numpy")
    if path.suffix == ".npy":
        array: Array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 1 or array.dtype.name not in _DTYPES:
            raise PackError(f"{path} is {array.dtype} {array.shape}: tokens are 1-D uint16/uint32")
        return array
    skip = _header(path)
    size = path.stat().st_size - skip
    kind = numpy.dtype(dtype).newbyteorder("<")
    if size % kind.itemsize:
        raise PackError(f"{path} has {size} bytes, no whole number of {dtype}: is it cut short?")
    plain: Array = numpy.memmap(path, kind, "r", offset=skip) if size else numpy.zeros(0, kind)
    return plain


def _header(path: Path) -> int:
    with path.open("rb") as file:
        return _HEADER_BYTES if file.read(4) == _MAGIC.to_bytes(4, "little") else 0
