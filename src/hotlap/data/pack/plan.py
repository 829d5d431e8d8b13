"""What a half-packed folder was packed with: whether another start may go on from it."""

import json
from pathlib import Path
from typing import TypedDict

from hotlap.data.errors import PackError
from hotlap.data.pack.settings import MOST_SHARDS, Settings
from hotlap.data.pack.sources import Source
from hotlap.data.pack.sources.base import digest
from hotlap.data.store import shard
from hotlap.data.store.files import write_whole

NAME = "plan.json"
SPOOL = "table.arrow"
PER_SHARD = 1000
_FREE = {"on_error", "max_error_rate", "shards", "strict", "constant_label"}
_STRICTEST = {"on_error": "raise", "strict": True}
"""What finished shards were packed with stays true when a later start is less strict."""
_WORDS = {
    "on_error": "policy for bad samples",
    "strict": "strictness",
    "shards": "number of shards",
}


class PackPlan(TypedDict):
    """What shards are packed with: digests of the settings and the source, and what may change."""

    settings: str
    source: str
    samples: int
    shards: int
    on_error: str
    strict: bool


def shards_of(source: Source, settings: Settings, folder: Path) -> int:
    """Return the number of shards; note the plan, or check it against what lies there.

    Where no shard has been finished there is nothing to go on from, and the plan is a new one.

    Raises:
        PackError: shards were finished with other settings, or from another source.
    """
    plan = _plan(source, settings)
    before = _before(folder) or plan
    if changed := _changed(before, plan):
        finished = sum(shard.load(folder, i) is not None for i in range(before["shards"]))
        if finished:
            raise PackError(
                f"{folder} holds {finished} shards packed with other {', '.join(changed)}: give "
                "the same command again, or remove it to begin anew"
            )
        for left in (folder / SPOOL, *folder.glob("shard-*")):
            left.unlink(missing_ok=True)
    write_whole(folder / NAME, json.dumps(plan).encode())
    return plan["shards"]


def clear(folder: Path) -> None:
    """Remove what only a packing under way needs."""
    for name in (NAME, SPOOL):
        (folder / name).unlink(missing_ok=True)


def _plan(source: Source, settings: Settings) -> PackPlan:
    usual = min(-(-len(source) // PER_SHARD), MOST_SHARDS)
    kept = {key: value for key, value in settings.document().items() if key not in _FREE}
    return {
        "settings": digest([json.dumps(kept, sort_keys=True)]),
        "source": source.identity(),
        "samples": len(source),
        "shards": min(settings.shards or usual, max(len(source), 1)),
        "on_error": settings.on_error,
        "strict": settings.strict,
    }


def _before(folder: Path) -> PackPlan | None:
    try:
        found: PackPlan = json.loads((folder / NAME).read_bytes())
    except FileNotFoundError:
        return None
    return found


def _changed(before: PackPlan, plan: PackPlan) -> list[str]:
    return [
        _WORDS.get(key, key)
        for key, value in plan.items()
        if value != before.get(key) and before.get(key) != _STRICTEST.get(key, value)
    ]
