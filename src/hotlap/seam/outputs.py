"""What a program that does not train computes: a sample of each root call's first output."""

import torch

from hotlap.seam.probe.models import first_tensor

VALUES = 64
ROWS = 32
ALL = 64
EVERY = 16
"""The first `ALL` steps are kept, then every `EVERY`th."""
MOST = 1024
IMAGE_DIMS = 4
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Outputs:
    """Keeps small parts of outputs on their device; `take` reads them, once a block.

    Of integer inputs (tokens) a checksum of all calls since the sequence began is kept, so that
    outputs are only compared where both programs were given the same.
    """

    def __init__(self) -> None:
        self._kept: list[dict[str, object]] = []
        self._history: torch.Tensor | int = 0
        self._steps = self._taken = 0

    def record(self, args: tuple[object, ...], kwargs: dict[str, object], result: object) -> None:
        """A step is over; these were the arguments and the result of its last root call."""
        step, self._steps = self._steps, self._steps + 1
        with torch.no_grad():
            self._follow(first_tensor((*args, *kwargs.values())), decodes=step > 0)
            if (step >= ALL and step % EVERY) or self._taken >= MOST:
                return
            output = first_tensor((result,))
            if output is not None and output.layout is torch.strided and output.numel():
                self._taken += 1
                self._kept.append({"step": step, "given": self._history, **_parts(output)})

    def _follow(self, given: torch.Tensor | None, *, decodes: bool) -> None:
        if given is None or given.is_floating_point() or given.is_complex():
            self._history = 0
            return
        weights = torch.arange(1, given.numel() + 1, device=given.device)
        checksum = (given.reshape(-1).long() * weights).sum()
        continues = decodes and given.dim() > 1 and given.shape[1] == 1
        self._history = self._history * 31 + checksum if continues else checksum

    def take(self) -> list[dict[str, object]]:
        """The steps recorded since last asked, as plain data."""
        kept, self._kept = self._kept, []
        return [{name: _plain(value) for name, value in each.items()} for each in kept]


def _parts(output: torch.Tensor) -> dict[str, object]:
    """Shape, checksum of the bits, evenly spaced values, and the two best of some rows."""
    output = output.detach()
    flat = output.reshape(-1)
    stride = max(1, flat.numel() // VALUES)
    found = {"shape": list(output.shape), "values": flat[::stride][:VALUES].double()}
    if output.is_complex():
        return {**found, "values": flat[::stride][:VALUES].abs().double(), "bits": 0}
    if output.dtype is torch.bool:
        flat = flat.to(torch.int8)
    found["bits"] = flat.view(BITS[flat.element_size()]).sum(dtype=torch.int64)
    if output.dim() > 1 and output.is_floating_point():
        classes = output.movedim(1, -1) if output.dim() == IMAGE_DIMS else output
        rows = classes.reshape(-1, classes.shape[-1])
        some = rows[:: max(1, len(rows) // ROWS)][:ROWS].float()
        if some.shape[1] > 1:
            found["best"], found["choice"] = some.topk(2)
    return found


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, torch.Tensor) else value
