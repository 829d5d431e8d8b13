"""The dispatch mode of a dry run: live bytes, FLOPs on local shapes, bytes sent by group."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from hotlap.parallel.dryrun.ledger import Ledger
from hotlap.parallel.dryrun.traffic import sent

_ATEN = torch.ops.aten


def flops(func: object, args: tuple[object, ...], kwargs: Mapping[str, object], out: object) -> int:
    """Two for each multiplication with its addition; 0 for what is no product.

    Attention counts without the causal half, and its backward as twice the forward: scores that a
    fused kernel computes again are not counted, as in the closed forms.
    """
    if not isinstance(func, torch._ops.OpOverload):
        return 0
    packet = func._overloadpacket
    if packet in _ATTENTION:
        return _ATTENTION[packet](*args)
    count = flop_registry.get(packet)
    return int(count(*args, **kwargs, out_val=out)) if count is not None else 0


def _forward(query: Tensor, key: Tensor, value: Tensor, *_: object) -> int:
    shapes = (query.shape, _wide(key, query), _wide(value, query))
    return int(sdpa_flop_count(*shapes))  # type: ignore[no-untyped-call]


def _backward(_: object, query: Tensor, key: Tensor, value: Tensor, *others: object) -> int:
    return 2 * _forward(query, key, value)


def _wide(key: Tensor, query: Tensor) -> tuple[int, ...]:
    """The shape with as many heads as queries have."""
    return (key.shape[0], query.shape[1], *key.shape[2:])


_ATTENTION: Mapping[object, Callable[..., int]] = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _forward,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _backward,
}


_WRAPPERS = (DTensor, AsyncCollectiveTensor)
_SHAPES = "_propagate_tensor_meta_non_cached"

Call = Callable[..., object]


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees each operation on local tensors, below DTensor and FSDP, while its context is open.

    Works on fake and on real tensors. What a kernel takes and gives back within one operation is
    not seen.

    Attributes:
        ledger: live bytes by owner.
        flops: floating-point operations of matrix products, convolutions and attention.
        sent: bytes this rank sends, by (kind of collective, group's name).
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ledger = Ledger()
        self._away = False
        self.flops = 0
        self.sent: Counter[tuple[str, str]] = Counter()

    def restart(self) -> None:
        """Count from here on; what is alive stays known."""
        self.ledger.restart()
        self.flops = 0
        self.sent.clear()

    def __enter__(self) -> "Watch":
        """Watch what is no operation as well, and look away from what is no work of the rank's."""
        self._undo = ExitStack()
        self._undo.enter_context(_replaced(torch.UntypedStorage, "resize_", self._resizing))
        self._undo.enter_context(_replaced(ShardingPropagator, _SHAPES, self._looking_away))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *failure: object) -> None:
        """Give the methods back."""
        super().__exit__(*failure)  # type: ignore[no-untyped-call]
        self._undo.close()

    def _resizing(self, resize: Call) -> Call:
        """FSDP frees and takes memory by resizing a storage."""

        def resize_(storage: torch.UntypedStorage, size: int) -> object:
            result = resize(storage, size)
            self.ledger.resized(storage, int(size))
            return result

        return resize_

    def _looking_away(self, propagate: Call) -> Call:
        """DTensor finds shapes by operations on fake tensors of the whole, not the local, size."""

        def shapes(*args: object, **kwargs: object) -> object:
            self._away, before = True, self._away
            try:
                return propagate(*args, **kwargs)
            finally:
                self._away = before

        return shapes

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if any(issubclass(kind, _WRAPPERS) for kind in types):
            return NotImplemented  # its local operations come by afterwards
        if _only_waits(func, args):
            return args[0]
        out = func(*args, **(kwargs or {}))
        if self._away or getattr(func, "namespace", "") == "prim":  # asks for a device, no more
            return out
        self.flops += flops(func, args, kwargs or {}, out)
        self.sent.update(sent(func, args))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor) and not isinstance(leaf, _WRAPPERS):
                self.ledger.see(leaf)
        return out


@contextmanager
def _replaced(owner: type, name: str, make: Callable[[Call], Call]) -> Iterator[None]:
    before, own = getattr(owner, name), name in vars(owner)
    setattr(owner, name, make(before))
    try:
        yield
    finally:
        if own:
            setattr(owner, name, before)
        else:  # it was inherited
            delattr(owner, name)


def _only_waits(func: object, args: tuple[object, ...]) -> bool:
    """Whether it waits for a fake result; the fake kernel copies, the real one not."""
    waits = func is torch.ops._c10d_functional.wait_tensor.default
    return waits and isinstance(args[0], FakeTensor)
