"""Patches that Dynamo never meets: it sees torch as it is while it compiles, ours otherwise.

A Python function in the place of `Tensor.to` or `torch.tensor` would break the graph of a compiled
model, and `fullgraph=True` would fail. Dynamo calls back before and after each compilation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hotlap.seam.hook import when_imported
from hotlap.seam.patch import Original, Patch, replaced

_patches: list[tuple[Patch, bool]] = []
"""Each with whether it comes back after a compilation."""
_watching: list[bool] = []


@contextmanager
def untraced(
    owner: object,
    name: str,
    make: Callable[[Original], object],
    *,
    comes_back: bool = True,
) -> Iterator[None]:
    """As `replaced`, but put back for as long as anything is being compiled.

    With `comes_back=False` for good: where compiled code guards on what it met, as it does on
    functions (not on a tensor's methods), it would be compiled anew at every call.
    """
    if not _watching:
        _watching.append(True)
        when_imported("torch._dynamo", _watch)
    with replaced(owner, name, make) as patch:
        entry = (patch, comes_back)
        _patches.append(entry)
        try:
            yield
        finally:
            _patches.remove(entry)


def _watch(_: object) -> None:
    """Dynamo is there: have it learn torch's own functions anew, and listen to it."""
    from torch._dynamo import trace_rules
    from torch._dynamo.callback import callback_handler as handler

    active = [patch for patch, _ in _patches if patch.active]
    _take_out(None)
    trace_rules.get_torch_obj_rule_map.cache_clear()
    trace_rules.get_torch_obj_rule_map()
    for patch in active:
        patch.put_in()
    clear = handler.clear

    def clear_others() -> None:
        clear()
        listen()

    def listen() -> None:
        handler.register_start_callback(_take_out)
        handler.register_end_callback(_put_in)

    listen()
    setattr(handler, "clear", clear_others)  # noqa: B010  torch._dynamo.reset() calls it


def _take_out(_: object) -> None:
    for patch, _comes_back in _patches:
        patch.take_out()


def _put_in(_: object) -> None:
    for patch, comes_back in _patches:
        if comes_back:
            patch.put_in()
