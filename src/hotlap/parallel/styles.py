"""Ways to spread one module over ranks that torch has none for."""

from functools import partial

from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import PrepareModuleInput
from torch.distributed.tensor.parallel.style import ParallelStyle

from hotlap.parallel.fused_columns import distribute, transposed


class Conv1DColwise(ParallelStyle):
    """`ColwiseParallel` for Hugging Face's Conv1D, whose weight is (in, out)."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        _only_conv1d(module)
        distribute(module, device_mesh, {"weight": Shard(1), "bias": Shard(0)})
        module.register_forward_pre_hook(partial(_as, device_mesh, Replicate()))
        module.register_forward_hook(partial(_local, Shard(-1)))
        return module


class Conv1DRowwise(ParallelStyle):
    """`RowwiseParallel` for Hugging Face's Conv1D.

    Args:
        output_layouts: what the output is brought to: `Replicate()`, or `Shard(1)` of the sequence.
    """

    def __init__(self, *, output_layouts: Placement | None = None) -> None:
        super().__init__()
        self.output_layouts = output_layouts or Replicate()

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        _only_conv1d(module)
        distribute(module, device_mesh, {"weight": Shard(0), "bias": Replicate()})
        module.register_forward_pre_hook(partial(_as, device_mesh, Shard(-1)))
        module.register_forward_hook(partial(_local, self.output_layouts))
        return module


class Divided(ParallelStyle):
    """Divides attributes of a module by the number of ranks, such as its number of heads.

    For code that computes with such a number instead of looking at what its matrices gave. A module
    that has no such attribute is left as it is.
    """

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        for name in self.names:
            number = getattr(module, name, None)
            if number is None:
                continue
            if number % device_mesh.size():
                raise ValueError(
                    f"{type(module).__name__}.{name} is {number}, which {device_mesh.size()} ranks "
                    "of tensor parallelism cannot share evenly"
                )
            setattr(module, name, number // device_mesh.size())
        return module


def replicated_input(
    keyword: str = "",
    *,
    layout: Placement | None = None,
    desired: Placement | None = None,
    local: bool = False,
) -> PrepareModuleInput:
    """Make a module's first input one DTensor, whose gradient is reduced once.

    Without it each of several column-parallel layers that share an input reduces a gradient of its
    own. `keyword` is the input's name where callers give it by name.
    """
    layout, desired = layout or Replicate(), desired or Replicate()
    if keyword:
        return PrepareModuleInput(
            input_kwarg_layouts={keyword: layout},
            desired_input_kwarg_layouts={keyword: desired},
            use_local_output=local,
        )
    return PrepareModuleInput(
        input_layouts=(layout,), desired_input_layouts=(desired,), use_local_output=local
    )


def _only_conv1d(module: nn.Module) -> None:
    if not transposed(module):
        raise TypeError(f"{type(module).__name__} is no Conv1D; a Linear takes torch's own styles")


def _as(
    mesh: DeviceMesh, placement: Placement, _: nn.Module, inputs: tuple[Tensor, *tuple[object, ...]]
) -> tuple[object, ...]:
    x, *rest = inputs
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, [placement], run_check=False)
    return (x.redistribute(placements=[placement]), *rest)


def _local(placement: Placement, _: nn.Module, __: object, output: DTensor) -> object:
    return output.redistribute(placements=[placement]).to_local()
