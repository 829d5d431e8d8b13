"""What autograd keeps for the backward pass, module by module."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class Saved:
    """One module's part: bytes and number of tensors saved in its own forward, children apart.

    `input` is the size of the tensors it was called with, in bytes.
    """

    name: str
    kind: str
    bytes: int = 0
    tensors: int = 0
    input: int = 0


@contextmanager
def saved_by_module(model: nn.Module) -> Iterator[dict[str, Saved]]:
    """Fill a table, by module name, of what the forward passes in the context save.

    A tensor saved twice counts once, for the module that saved it first; parameters and buffers
    do not count. What is saved outside of the model (by the loss) is listed under `outside`.
    """
    table: dict[str, Saved] = {}
    stack: list[str] = ["outside"]
    kinds = {name: type(module).__name__ for name, module in model.named_modules()}
    seen = {_key(t) for t in (*model.parameters(), *model.buffers())}
    held: list[Tensor] = []  # keeps storages alive: a key that is used again would not count

    def row(name: str) -> Saved:
        return table.setdefault(name, Saved(name, kinds.get(name, "")))

    def pack(tensor: Tensor) -> Tensor:
        key = _key(tensor)
        if key and key not in seen:
            seen.add(key)
            held.append(tensor)
            row(stack[-1]).bytes += tensor.untyped_storage().nbytes()
            row(stack[-1]).tensors += 1
        return tensor

    def entering(name: str) -> object:
        def hook(_: nn.Module, args: tuple[object, ...]) -> None:
            stack.append(name)
            row(name).input += sum(a.nbytes for a in args if isinstance(a, Tensor))

        return hook

    def leaving(*_: object) -> None:
        stack.pop()

    with ExitStack() as undo:
        for name, module in model.named_modules():
            undo.callback(module.register_forward_pre_hook(entering(name)).remove)
            undo.callback(module.register_forward_hook(leaving, always_call=True).remove)
        undo.enter_context(watching(pack))
        yield table


@contextmanager
def watching(pack: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Call `pack` with what autograd saves; step aside for torch.func, which refuses such hooks.

    The watching may end within a function that torch.func transforms: the hooks stay out then.
    """
    graph = torch.autograd.graph
    hooks = graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    refuse = graph.disable_saved_tensors_hooks
    over = aside = False

    @contextmanager
    def refused(error_message: str) -> Iterator[None]:
        nonlocal aside
        top = torch._C._autograd._top_saved_tensors_default_hooks(False)
        mine = top is not None and top[0] == pack  # hooks of the program's own are its error
        if mine:
            hooks.__exit__()
            aside = True
        try:
            with refuse(error_message):
                yield
        finally:
            if mine:
                aside = False
                if not over:
                    hooks.__enter__()

    graph.disable_saved_tensors_hooks = refused
    hooks.__enter__()
    try:
        yield
    finally:
        over = True
        if not aside:
            hooks.__exit__()
        graph.disable_saved_tensors_hooks = refuse


def below(table: dict[str, Saved], name: str) -> int:
    """Bytes saved by a module and all modules in it."""
    inside = f"{name}." if name else ""
    return sum(r.bytes for n, r in table.items() if n == name or n.startswith(inside))


def _key(tensor: Tensor) -> int:
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):
        return 0
