"""What the parent tells the processes of a trial, as one JSON file named by HOTLAP_SPEC."""

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

VARIABLE = "HOTLAP_SPEC"


class Mode(StrEnum):
    """What the process of a trial does besides running the user's program."""

    RUN = "run"
    RACE = "race"
    PROFILE = "profile"
    LR = "lr"


@dataclass(frozen=True)
class Spec:
    """One trial's orders.

    `techniques` maps ids to the values of their choices. `scratch` is a folder of the trial's own
    (empty: there is none). Where `guarded`, Python's writes go there; `keep` are folders written
    for real all the same, `cover` folders guarded even below a kept one. `options` belong to the
    mode.
    """

    trial: str
    mode: Mode
    control: str
    techniques: dict[str, dict[str, Any]] = field(default_factory=dict)
    seed: int | None = None
    scratch: str = ""
    guarded: bool = False
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
        raw["mode"] = Mode(raw["mode"])
        raw |= {name: tuple(raw[name]) for name in ("keep", "cover")}
        return Spec(**raw)
