"""Clusters: memory, arithmetic and bandwidths of a GPU and its links."""

from dataclasses import dataclass, replace

from hotlap.core.errors import UsageError

GIB = 2**30


@dataclass(frozen=True)
class Cluster:
    """`gpus` in nodes of `node`.

    `memory`: bytes a GPU. `peak`: dense 16-bit FLOP/s a GPU. `achieved`: the share of it that
    training kernels reach. `inside`, `outside`: bytes/s a GPU in one direction within and between
    nodes.
    """

    name: str
    gpus: int
    node: int
    memory: float
    peak: float
    inside: float
    outside: float
    achieved: float = 0.5

    def having(self, gpus: int) -> "Cluster":
        """The same kind with another number of GPUs.

        Raises:
            UsageError: fewer than one.
        """
        if gpus < 1:
            raise UsageError(f"a cluster of {gpus} GPUs cannot train")
        return replace(self, gpus=gpus)


# Sources: NVIDIA data sheets of the A100 80GB SXM, H100 SXM and H200 SXM (dense BF16, NVLink total
# bandwidth halved to one direction); between nodes one InfiniBand port a GPU, HDR 200 Gbit/s with
# A100, NDR 400 Gbit/s with H100 and H200, as in DGX systems.
PRESETS = {
    "a100": Cluster("A100 80GB", 8, 8, 80 * GIB, 312e12, 300e9, 25e9),
    "h100": Cluster("H100 80GB", 8, 8, 80 * GIB, 989e12, 450e9, 50e9),
    "h200": Cluster("H200 141GB", 8, 8, 141 * GIB, 989e12, 450e9, 50e9),
}
