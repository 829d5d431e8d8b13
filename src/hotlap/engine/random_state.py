"""The state of every random number stream, in a form that any checkpoint can hold."""

from typing import Any

import torch

from hotlap.common.randomness import Streams
from hotlap.engine.states import State

_ARRAY, _DTYPE = "array", "dtype"
_GLOBAL = 3  # streams of torch, Python and NumPy, which come before the owner's


class Randomness:
    """The streams of Python, NumPy, torch and CUDA, and the generators that `owner` keeps.

    A state holds numbers, strings, tensors and containers only, so that
    `torch.load(..., weights_only=True)` reads it.
    """

    def __init__(self, owner: object = None) -> None:
        self._streams = Streams(owner)

    def state(self) -> State:
        """Every stream's state; no device is waited for."""
        cuda = torch.cuda.get_rng_state_all() if _cuda() else []
        return {"streams": [_plain(s) for s in self._streams.state()], "cuda": cuda}

    def restore(self, state: State) -> None:
        """Put back what `state` gave.

        Raises:
            ValueError: the owner keeps another number of generators than it did then.
        """
        streams = [_full(s) for s in state["streams"]]
        if streams[2] is not None:
            import numpy  # noqa: F401  (its stream is restored below)
        known = len(self._streams.state())
        if len(streams) != known:
            raise ValueError(
                f"the state has {len(streams) - _GLOBAL} generators of the loader, and this loader "
                f"keeps {known - _GLOBAL}: resume with the loader that was saved"
            )
        self._streams.restore(streams)
        if state["cuda"]:
            torch.cuda.set_rng_state_all(state["cuda"])

    def kept(self) -> list[object]:
        """The states of the generators that the owner keeps."""
        return [_plain(s) for s in self._streams.state()[_GLOBAL:]]

    def restore_kept(self, kept: list[object]) -> None:
        """Put back what `kept` gave; of an empty list nothing."""
        if kept:
            now = self.state()
            self.restore({"streams": now["streams"][:_GLOBAL] + kept, "cuda": []})


def globals_of(state: State) -> State:
    """The part of a state that does not belong to an owner."""
    return {**state, "streams": state["streams"][:_GLOBAL]}


def _cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # an array of NumPy's
        return {_ARRAY: torch.from_numpy(value.astype("int64")), _DTYPE: str(value.dtype)}
    return value


def _full(value: object) -> object:
    if not isinstance(value, dict):
        return value
    if value.keys() == {_ARRAY, _DTYPE}:
        return value[_ARRAY].numpy().astype(value[_DTYPE])
    return {key: _full(entry) for key, entry in value.items()}
