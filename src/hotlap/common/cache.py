"""Where hotlap keeps what it need not find out twice."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/hotlap`, or `~/.cache/hotlap` where that is unset or (see XDG) relative.

    Raises RuntimeError where there is no home either.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "hotlap"
