"""What optimizers with a rate for each layer share: state, shards, exclusion, checkpoints."""

from collections.abc import Callable, Iterator
from typing import Any, overload

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch.optim.optimizer import Optimizer, ParamsT, StateDict

from hotlap.optim.argument_checks import check
from hotlap.optim.leaves import Leaf, begin, leaf

Group = dict[str, Any]
CHUNK = 1 << 17  # elements whose tensors a core's caches hold together


class Layerwise(Optimizer):
    """The base of LARS and LAMB.

    On the CPU parameters are updated one after the other, because between the norms and the update
    a layer then stays in the cache: by kernels compiled for the machine where it has a C compiler
    (`hotlap.optim.kernels`), else by torch's operations. Elsewhere, and where each rank holds a
    shard, all of them are updated together by multi-tensor kernels, with one all-reduce for all
    norms.
    """

    names: tuple[str, ...] = ()
    _pads: dict[tuple[torch.dtype, bool], Tensor] | None = None

    def __init__(self, params: ParamsT, defaults: Group) -> None:
        check(type(self).__name__, defaults)
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters; its options are checked as the defaults are.

        Raises:
            ValueError: an option is out of range, or a parameter is complex.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        check(type(self).__name__, group)
        for parameter in group["params"]:
            if not parameter.is_floating_point():
                raise ValueError(
                    f"{type(self).__name__} takes floating-point parameters, not {parameter.dtype};"
                    " give the parameter to another optimizer"
                )

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Make one step; return the closure's loss.

        Raises:
            RuntimeError: a gradient is sparse.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._update()
        return loss

    @_disable_dynamo
    def _update(self) -> None:
        """Update every group.

        Not traced by `torch.compile(optimizer.step)`, which changes nothing here: it would compile
        anew in every step, since each has new gradients, and the kernels are fused as they are.
        """
        prepared = self._prepare()
        for group in self.param_groups:
            self._group(group, prepared)

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load a state; tensors keep the dtype they were saved with.

        torch casts state to its parameter's dtype, which would round the float32 state of bfloat16
        parameters.
        """
        seen: dict[str, object] = {}
        handle = self.register_load_state_dict_pre_hook(lambda _, given: seen.update(given))
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
        for parameter, saved in self._saved(seen):
            for name, value in saved.items():
                if isinstance(value, Tensor) and value.dtype != self.state[parameter][name].dtype:
                    self.state[parameter][name] = value.to(device=parameter.device)

    def _saved(self, given: StateDict) -> Iterator[tuple[Tensor, dict[str, object]]]:
        for group, saved in zip(self.param_groups, given["param_groups"], strict=True):
            for parameter, index in zip(group["params"], saved["params"], strict=True):
                if index in given["state"]:
                    yield parameter, given["state"][index]

    def _prepare(self) -> Tensor | None:
        """What must be known of all gradients before the first update."""
        return None

    def _group(self, group: Group, prepared: Tensor | None) -> None:
        alone: list[Leaf] = []
        together: dict[tuple[object, ...], list[Leaf]] = {}
        for parameter in self._with_grad(group):
            found = self._leaf(parameter, group)
            if found.weight.device.type != "cpu" or found.layout is not None:
                key = (found.weight.device, found.weight.dtype, found.adapt)
                together.setdefault(key, []).append(found)
            elif found.copied:  # at once, so that one copy lives at a time
                self._one_by_one([found], group, prepared)
            else:
                alone.append(found)
        self._one_by_one(alone, group, prepared)
        for leaves in together.values():
            torch._foreach_add_([found.step for found in leaves], 1)
            self._together(leaves, group, prepared)
            for found in leaves:
                found.write_back()

    def _one_by_one(self, leaves: list[Leaf], group: Group, prepared: Tensor | None) -> None:
        scale = None if prepared is None else prepared.item()
        for dtype in {found.weight.dtype for found in leaves}:
            alike = [found for found in leaves if found.weight.dtype is dtype]
            if not self._compiled(alike, group, scale):
                torch._foreach_add_([found.step for found in alike], 1)
                self._alone([found.flat() for found in alike], group, scale)
        for found in leaves:
            found.write_back()

    def _leaf(self, parameter: Tensor, group: Group) -> Leaf:
        state = self.state[parameter]
        if not state:
            begin(parameter, state, self.names, master=group["master_weights"])
        adapt = group["layerwise"] and not (group["exclude_1d"] and parameter.dim() <= 1)
        return leaf(parameter, state, self.names, adapt=adapt)

    def _with_grad(self, group: Group) -> Iterator[Tensor]:
        for index, parameter in enumerate(group["params"]):
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                raise RuntimeError(
                    f"{type(self).__name__} takes no sparse gradients, and parameter {index} of a"
                    f" group, of shape {tuple(parameter.shape)}, has one; build its Embedding with"
                    " sparse=False, or give it to torch.optim.SparseAdam"
                )
            yield parameter

    def _compiled(self, leaves: list[Leaf], group: Group, scale: float | None) -> bool:
        """Update parameters of the CPU by kernels compiled for it; False where there are none."""
        raise NotImplementedError

    def _alone(self, leaves: list[Leaf], group: Group, scale: float | None) -> None:
        """Update flat parameters of the CPU, one after the other; `scale`: what `prepared` holds.

        Little else should be done in between: what Python reads has left the cache by then.
        """
        raise NotImplementedError

    def _together(self, leaves: list[Leaf], group: Group, prepared: Tensor | None) -> None:
        """Update parameters of one device and dtype, all of them adapted or none."""
        raise NotImplementedError

    def _scratch(self, count: int, dtype: torch.dtype, *, finite: bool = True) -> Tensor:
        """Memory of the CPU for so many elements, kept from step to step.

        What is `finite` holds no infinities unless who asked for it wrote some.
        """
        if self._pads is None:  # neither made by __init__ nor copied and pickled
            self._pads = {}
        pad = self._pads.get((dtype, finite))
        if pad is None or pad.numel() < count:
            make = torch.zeros if finite else torch.empty
            pad = self._pads[dtype, finite] = make(count, dtype=dtype)
        return pad if pad.numel() == count else pad.narrow(0, 0, count)


def slope(group: Group, scale: float | None) -> float:
    """What gradients are multiplied by."""
    return (-1.0 if group["maximize"] else 1.0) * (1.0 if scale is None else scale)


def chunk() -> int:
    """Elements to take at a time so that they stay in the caches of all threads."""
    return CHUNK * torch.get_num_threads()
