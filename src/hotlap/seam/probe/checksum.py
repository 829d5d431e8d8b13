"""Checksums of tensors, by which results of different steps are compared without keeping them."""

import torch

FOLDED = 1 << 20
"""Elements that one pass of a checksum takes together."""
GOLDEN = 0.6180339887498949

Checksums = tuple[torch.Tensor, ...]


class Checksum:
    """Two checksums of a tensor: one that shows each change of a bit, one that shows places."""

    def __init__(self) -> None:
        self._weights: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}

    def of(self, tensor: torch.Tensor) -> Checksums:
        """The checksums, as tensors of no dimension: on a GPU nothing waits for them."""
        with torch.no_grad(), torch.autocast(tensor.device.type, enabled=False):
            plain = tensor.detach().resolve_conj()
            plain = torch.view_as_real(plain) if plain.is_complex() else plain
            if plain.dtype == torch.bool or (plain.is_floating_point() and plain.itemsize == 1):
                plain = plain.contiguous().view(torch.uint8)  # no kernel hashes them as they are
            flat = plain.reshape(-1)
            return torch.hash_tensor(flat), self._folded(flat)

    def _folded(self, flat: torch.Tensor) -> torch.Tensor:
        kind = torch.float64 if flat.dtype == torch.float64 else torch.float32
        flat, weights = flat.to(kind), self._weights_of(flat.device, kind)
        while len(flat) > FOLDED:
            whole = len(flat) // FOLDED * FOLDED
            flat = torch.cat([flat[:whole].view(-1, FOLDED) @ weights, flat[whole:]])
        return flat @ weights[: len(flat)]

    def _weights_of(self, device: torch.device, kind: torch.dtype) -> torch.Tensor:
        """Numbers between 0.5 and 1.5, without the program's generators."""
        if (device, kind) not in self._weights:
            count = torch.arange(FOLDED, device=device, dtype=torch.float64)
            self._weights[device, kind] = ((count * GOLDEN) % 1.0 + 0.5).to(kind)
        return self._weights[device, kind]


def agree(one: Checksums, other: Checksums | None) -> bool:
    """Whether checksums are those of the same results; not a number is equal to itself here."""
    if other is None or len(one) != len(other):
        return False
    pairs = zip(one, other, strict=True)
    return all(torch.equal(*(sum_.nan_to_num() for sum_ in pair)) for pair in pairs)
