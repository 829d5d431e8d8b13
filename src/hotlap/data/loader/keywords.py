"""DataLoader's keywords: what each is to a `Loader`, or why it is none."""

import warnings
from collections.abc import Callable
from typing import Any

import torch

_RENAMED = {"bad": "on_error", "bad_limit": "max_error_rate"}
_REFUSED: dict[str, tuple[Callable[[object], bool], str]] = {
    "timeout": (lambda value: not value, "a worker that dies is reported at once; leave it out"),
    "multiprocessing_context": (
        lambda value: value in {None, "fork"} or getattr(value, "_name", "") == "fork",
        "workers are always forked, so that a dataset need not be pickled; leave it out",
    ),
    "in_order": (bool, "batches always come in order; leave it out"),
    "pin_memory_device": (lambda value: not value, "give device= with the device instead"),
}


def rest(given: dict[str, object]) -> dict[str, Any]:
    """Return the deprecated keywords under their present names.

    Raises:
        TypeError: a keyword is unknown, or is one of DataLoader's that a Loader cannot follow.
    """
    found = {}
    for name, value in given.items():
        if name in _RENAMED:
            now = _RENAMED[name]
            warnings.warn(f"{name}= is called {now}= now", DeprecationWarning, stacklevel=3)
            found[now] = value
        elif name not in _REFUSED:
            raise TypeError(f"Loader has no keyword {name!r}")
        elif not _REFUSED[name][0](value):
            raise TypeError(f"{name}={value!r}: {_REFUSED[name][1]}")
    return found


def workers_of(workers: int | None, num_workers: int | None) -> int | None:
    """Return the number of processes; `num_workers` is DataLoader's name for `workers`."""
    if workers is not None and num_workers is not None and workers != num_workers:
        raise TypeError("workers and num_workers are two names of one thing: give one of them")
    return workers if num_workers is None else num_workers


def seed_of(seed: int | None, generator: torch.Generator | None) -> int:
    """Return the seed: as given, or the one that the generator began with."""
    if generator is None:
        return seed or 0
    if seed is not None:
        raise TypeError("seed= and generator= both say what the order follows: give one of them")
    return int(generator.initial_seed())


def check_samplers(
    sampler: object, batch_sampler: object, batch_size: int, shuffle: bool, drop_last: bool
) -> None:
    """Refuse keywords that exclude one another, as DataLoader does."""
    if batch_size is None:
        raise TypeError(
            "batch_size=None: a Loader always makes batches; where the dataset makes them itself, "
            "give it `__getitems__(numbers)`, or a batch_sampler"
        )
    if sampler is not None and shuffle:
        raise ValueError("sampler= and shuffle=True exclude one another: the sampler shuffles")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler= excludes batch_size, shuffle, sampler and drop_last: it makes batches"
        )
