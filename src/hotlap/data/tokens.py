"""Windows of a token stream, as language models are trained on."""

from pathlib import Path

import torch

from hotlap.common.extras import Array, IntArray, need
from hotlap.data.errors import StoreError
from hotlap.data.loader.memory import Space
from hotlap.data.loader.plan import Step
from hotlap.data.loader.reading import Fetched
from hotlap.data.order import Draws
from hotlap.data.store import Store

IGNORED = -100


class TokenWindows:
    """A token store cut into windows; give it to a `Loader`.

    Each batch is `(inputs, targets)`, int64 (samples, length); targets are the inputs one further.
    With `documents=True` it is a dict that also has `positions`, which begin at 0 with each
    document, and `document`, the number of the document within the window, both for an attention
    that does not look across; a target across a document's end is -100, which `cross_entropy`
    ignores.

    Args:
        store: packed with `--profile tokens`.
        length: tokens of a window.
        random: windows begin anywhere, as in nanoGPT, rather than one after the other; an
            epoch has as many of them.
        documents: heed where documents begin; the store must be packed with `--end TOKEN`.

    Raises:
        StoreError: no token store, shorter than a window, or packed without ends.
    """

    def __init__(
        self,
        store: Store | str | Path,
        length: int,
        *,
        random: bool = False,
        documents: bool = False,
    ) -> None:
        self.store = store if isinstance(store, Store) else Store(store)
        if self.store.profile != "tokens":
            raise StoreError(f"{self.store.path} holds {self.store.profile}, not tokens")
        about = self.store.manifest.settings
        self.length = length
        self.tokens: int = about["tokens"]
        self.random = random
        self._block: int = about["block"]
        self._dtype = need("numpy").dtype(about["dtype"])
        self.heeds_documents = documents
        """Whether batches tell documents apart."""
        self._documents = self._starts() if documents else need("numpy").empty(0, "i8")
        if length < 1 or len(self) < 1:
            raise StoreError(
                f"{self.store.path} has {self.tokens} tokens: a window of {length} needs "
                f"{length + 1}, and at least 2"
            )

    def __len__(self) -> int:
        return (self.tokens - 1) // self.length

    def reader(self, seed: int) -> "WindowReader":
        """Return what a `Loader` reads by."""
        return WindowReader(self, seed)

    def starts(self, step: Step, seed: int) -> IntArray:
        """Return where the windows of a step begin, int64."""
        if not self.random:
            return step.ids * self.length
        places = self.tokens - self.length
        drawn = Draws(seed, step.epoch, step.ids).uniform("window")[:, 0]
        starts: IntArray = (drawn * places).astype("i8")
        return starts

    def read(self, start: int, out: Array) -> None:
        """Read `len(out)` tokens from `start` into `out`."""
        done = 0
        while done < len(out):
            block, at = divmod(start + done, self._block)
            count = min(len(out) - done, self._block - at)
            size = self._dtype.itemsize
            data = self.store.read(block, at * size, count * size)
            out[done : done + count] = need("numpy").frombuffer(data, self._dtype)
            done += count

    def documents_in(self, start: int) -> tuple[IntArray, IntArray]:
        """Return (positions, document numbers) of the `length + 1` tokens from `start`."""
        numpy = need("numpy")
        places = numpy.arange(start, start + self.length + 1)
        number = numpy.searchsorted(self._documents, places, "right") - 1
        return places - self._documents[number], number - number[0]

    def _starts(self) -> IntArray:
        if "documents" not in self.store.manifest.tables:
            raise StoreError(
                f"{self.store.path} does not know where documents end: pack it with --end TOKEN"
            )
        return self.store.table("documents")


class WindowReader:
    """Reads batches of windows."""

    fills = threads = light = True
    changes = False

    def __init__(self, windows: TokenWindows, seed: int) -> None:
        self._windows = windows
        self._seed = seed

    def __len__(self) -> int:
        return len(self._windows)

    def identity(self) -> str:
        """Return the store's digest, and how it is cut."""
        cut = "random" if self._windows.random else "in turn"
        return f"{self._windows.store.digest} {self._windows.length} {cut}"

    def state(self) -> None:
        """Return nothing: a store does not change."""

    def ahead(self, step: Step) -> None:
        """Do nothing: windows are small, and the kernel reads around them."""

    def fetch(self, step: Step, space: Space) -> Fetched:
        """Read a batch of windows of `length + 1` tokens."""
        length = self._windows.length
        starts = self._windows.starts(step, self._seed).tolist()
        tokens = space.take((len(starts), length + 1), "i8")
        for row, start in zip(tokens, starts, strict=True):
            self._windows.read(start, row)
        value: tuple[torch.Tensor, ...] = (torch.from_numpy(tokens),)
        if self._windows.heeds_documents:
            value += tuple(map(space.put, self._about(starts, tokens[:, 1:])))
        return Fetched(value)

    def _about(self, starts: list[int], targets: Array) -> tuple[Array, Array, Array]:
        """Return (positions, document numbers, targets within a document) of windows."""
        windows = map(self._windows.documents_in, starts)
        positions, document = map(need("numpy").stack, zip(*windows, strict=True))
        across = document[:, 1:] != document[:, :-1]
        within = need("numpy").where(across, IGNORED, targets)
        return positions[:, :-1], document[:, :-1], within

    def present(self, value: tuple[torch.Tensor, ...]) -> object:
        """Name what was read, or part inputs and targets."""
        tokens, *about = value
        inputs = tokens[:, :-1]
        if not about:
            return inputs, tokens[:, 1:]
        positions, document, targets = about
        return {
            "inputs": inputs,
            "targets": targets,
            "positions": positions,
            "document": document,
        }
