"""What the parent tells the processes of a trial, as one JSON file named by HOTLAP_SPEC."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

VARIABLE = "HOTLAP_SPEC"
REACHED = "reached"
"""The folder beside the spec in which each process that was reached leaves a file."""

NOTEBOOK_SHIM = "hotlap_notebook_shim"
"""The module of ours beside the script of a notebook."""


class Mode(StrEnum):
    """What the process of a trial does besides running the user's program."""

    RUN = "run"
    RACE = "race"
    BATCH = "batch"
    PROFILE = "profile"
    LR = "lr"


class Tier(StrEnum):
    """How trials are kept from the user's files: from the strongest way to none."""

    OVERLAY = "overlay"
    LANDLOCK = "landlock"
    GUARD = "guard"
    OFF = "off"


@dataclass(frozen=True)
class Spec:
    """One trial's orders.

    `techniques` maps ids to the values of their choices. `scratch` is a folder of the trial's own
    (empty: there is none), `tier` how it is isolated. Where a guard redirects Python's writes,
    `keep` are folders written for real all the same, `cover` folders guarded even below a kept
    one. `options` are those of the mode (`core/protocol.py`), as plain data.
    """

    trial: str
    mode: Mode
    control: str
    techniques: dict[str, dict[str, object]] = field(default_factory=dict)
    seed: int | None = None
    scratch: str = ""
    tier: Tier = Tier.OFF
    keep: tuple[str, ...] = ()
    cover: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the orders where the trial's processes will read them."""
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(path: str) -> "Spec":
        """Read the orders inside a trial's process."""
        raw = json.loads(Path(path).read_text())
        raw["mode"], raw["tier"] = Mode(raw["mode"]), Tier(raw["tier"])
        raw |= {name: tuple(raw[name]) for name in ("keep", "cover")}
        return Spec(**raw)
