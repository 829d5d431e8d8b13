"""What feeds the training, looked at after the timed steps where these waited for data."""

from dataclasses import asdict
from typing import Any

from hotlap.seam.probe.dataset import seen
from hotlap.seam.probe.packed import compared
from hotlap.seam.probe.recorder import Recorder

LEAST = 0.1
"""The share of a step that waiting for data must take: below, nothing here could give 10 %."""
OVER = "the program was over before its files could be read once more; --steps asks for fewer"


def fed(rec: Recorder, ended: str, loader: Any, waiting: float) -> dict[str, Any]:
    """What was learned of the dataset; empty where nobody asked, or nothing waits."""
    wanted = rec.session.spec.options.get("dataset")
    if not wanted or loader is None or waiting < LEAST:
        return {}
    found = seen(loader) if ended == "steps" else None
    if ended != "steps":
        return {"why": OVER}
    if found is None:
        return {}
    told = found.about | {
        "shape": list(found.shape), "dtype": found.dtype, "draws": found.draws, "why": found.why,
        "taken": asdict(found.taken) if found.taken else None,
    }  # fmt: skip
    if not found.why:
        told |= _versus(found, rec)
    return told


def _versus(found: Any, rec: Recorder) -> dict[str, Any]:
    on_device = bool(rec.facts.values.get("cuda"))
    try:
        return {"packed": compared(found, rec.session.spec.scratch, on_device=on_device)}
    except Exception as error:
        return {"failed": str(error) or repr(error)}
