"""What feeds the training, looked at after the timed steps."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import asdict
from typing import Any

from torch.utils.data import IterableDataset

from hotlap.common.randomness import Streams
from hotlap.common.samples import size
from hotlap.seam.probe import holding
from hotlap.seam.probe.dataset import seen
from hotlap.seam.probe.packed import compared
from hotlap.seam.probe.recorder import Recorder

LEAST = 0.1
"""The share of a step that waiting for data must take: below, nothing here could give 10 %."""
OVER = "the program was over before its files could be read once more; --steps asks for fewer"
FEW = 2


@contextmanager
def _silent() -> Iterator[None]:
    """What the dataset prints for these further samples is no output of the program's."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


@_silent()
def fed(rec: Recorder, ended: str, loader: Any, waiting: float) -> dict[str, Any]:
    """What was learned of the dataset; empty where nobody asked, or nothing waits."""
    wanted = rec.session.spec.options.get("dataset")
    if not wanted or loader is None or waiting < LEAST:
        return {}
    if ended != "steps":
        return {"why": OVER}
    found = seen(loader)
    if found is None:
        return {}
    told = found.about | {
        "shape": list(found.shape), "dtype": found.dtype, "draws": found.draws, "why": found.why,
        "taken": asdict(found.taken) if found.taken else None, "faults": found.faults,
    }  # fmt: skip
    if found.failed:
        told["failed"] = found.failed
    elif not found.why:
        told |= _versus(found, rec)
    return told


def _versus(found: Any, rec: Recorder) -> dict[str, Any]:
    on_device = bool(rec.facts.values.get("cuda"))
    try:
        return {"packed": compared(found, rec.session.spec.scratch, on_device=on_device)}
    except Exception as error:  # a missing package, a full disk
        return {"failed": str(error) or repr(error)}


@_silent()
def held(rec: Recorder, ended: str, loader: Any) -> dict[str, Any]:
    """What was used meanwhile and is held now: memory of workers, disk reads, files, /dev/shm."""
    if not rec.session.spec.options.get("dataset"):
        return {}
    found = rec.resources.result()
    found["files"] = _tried(holding.files, [])
    if getattr(loader, "num_workers", 0):
        found["objects"] = _tried(lambda: holding.objects(loader.dataset), [])
        if ended == "steps":
            found["shm"] = _tried(lambda: holding.shared_memory(loader, _batch(loader)), {})
    found["kept"] = _tried(holding.kept, 0)
    return found


def _tried(look: Callable[[], Any], otherwise: Any) -> Any:
    """What a look brings; `otherwise` where it fails, since the profile is sent all the same."""
    try:
        return look()
    except Exception:
        return otherwise


def _batch(loader: Any) -> int:
    """Bytes of one of the loader's batches, from a few samples read here."""
    dataset = loader.dataset
    if isinstance(dataset, IterableDataset) or not loader.batch_size:
        return 0
    streams = Streams(dataset)
    before = streams.state()
    try:
        sizes = [size(dataset[index]) for index in range(FEW)]
    finally:
        streams.restore(before)
    return int(loader.batch_size * sum(sizes) / FEW)
