"""Which of several ranks this process is."""

import os
import sys
from typing import Any


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: the default process group's, before it is made the launcher's.

    Ranks that the program spawns itself learn theirs only as they join the group; their
    environment need not know it.
    """
    group = _distributed()
    if group is not None:
        return int(group.get_rank()), int(group.get_world_size())
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def _distributed() -> Any:
    """torch.distributed once there is a process group; else None."""
    module: Any = sys.modules.get("torch.distributed")
    ready = module is not None and module.is_available() and module.is_initialized()
    return module if ready else None
