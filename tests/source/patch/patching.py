"""What the tests of the patcher share."""

from pathlib import Path
from typing import Any

from hotlap.core.recipe import Kept, Recipe
from hotlap.core.registry import technique
from hotlap.source.patch.plan import Patch, patch
from hotlap.source.patch.text import File

VALUES: dict[str, Any] = {
    "num_workers": 4,
    "prefetch_factor": 4,
    "threads": 2,
    "dtype": "bfloat16",
    "bucket_cap_mb": 100,
    "mode": "default",
}


def recipe(*names: str, **values: Any) -> Recipe:
    """A recipe of these techniques, with usual values."""
    chosen = VALUES | values
    kept = {
        name: Kept({c.name: chosen.get(c.name, c.values[0]) for c in technique(name).choices})
        for name in names
    }
    return Recipe(kept)


def patched(text: str, *names: str, **values: Any) -> tuple[str, Patch]:
    """The text with these techniques written in, and all that was said."""
    file = File(Path("train.py"), text, "utf-8")
    done = patch(recipe(*names, **values), [file])
    return done.texts[file], done
