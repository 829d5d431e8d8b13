"""Copies of what a checkpoint holds, in memory that the next checkpoint uses again."""

import torch

Record = tuple[str, object, int]
"""Name, bytes or storage, and size in bytes, as torch's archive writer takes them."""
SAVES = 4
"""Saves in a row (a model's, an optimizer's, a best and a last file) whose memory is kept."""


class Buffers:
    """Memory of the copies, used again by the next saves.

    The kernel clears fresh pages one by one, which takes longer than the copy, nearly as long as
    writing the file. What the last `SAVES` saves did not need is let go.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[tuple[int, torch.UntypedStorage]]] = {}
        self._saves = 0

    def copy(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        """A copy of the storage on the CPU, in a buffer of its size."""
        size = storage.nbytes()
        try:
            _, buffer = self._free[size].pop()
        except (KeyError, IndexError):  # none, or the thread that writes has let it go just now
            buffer = torch.UntypedStorage(size, device="cpu")  # type: ignore[no-untyped-call]
        return buffer.copy_(storage)

    def give_back(self, records: list[Record]) -> None:
        """A save is written."""
        self._saves += 1
        for _, data, _ in records:
            if isinstance(data, torch.UntypedStorage):
                self._free.setdefault(data.nbytes(), []).append((self._saves, data))
        oldest = self._saves - SAVES
        for free in self._free.values():
            while free and free[0][0] <= oldest:
                free.pop(0)

    def clear(self) -> None:
        """Let all of it go."""
        self._free.clear()


class Recorder:
    """Stands in for torch's archive writer: keeps the records, tensors' memory as copies."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self.records: list[Record] = []
        self.size = 0

    def write_record(self, name: str, data: object, size: int) -> None:
        """Keep a record until the thread writes it."""
        if isinstance(data, torch.UntypedStorage):
            data = self._buffers.copy(data)
        self.records.append((name, data, size))
        self.size += size
