"""The manifest: what a store holds, and the digest that shows whether it was altered."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hotlap.data.errors import StoreError

FORMAT = "hotlap-store"
VERSION = 1
NAME = "manifest.json"
PROFILES = ("jpeg", "jpeg256", "raw", "tokens", "records")


@dataclass(frozen=True)
class Shard:
    """One file of payloads, end to end without gaps."""

    file: str
    bytes: int
    samples: int


@dataclass(frozen=True)
class Table:
    """One column of the index: a plain little-endian array in a file of its own."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    check: str

    @property
    def rows(self) -> int:
        """Entries along the first axis."""
        return self.shape[0]


@dataclass(frozen=True)
class Row:
    """Shape and dtype that all payloads share (profiles raw and tokens)."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Manifest:
    """Everything about a store but its payloads and tables.

    `tables` always has `length` (bytes, int64), `check` (xxh3-64 of each payload, uint64),
    `name_end` (int64) and `names` (UTF-8); further tables are fields of the samples, `field.label`
    among them. `columns` are the fields of variable length, with their kinds (`values.KINDS`): they
    lie in `extra`, end to end for each sample, of which `part.NAME` gives the lengths (int64) and
    `extra_check` the checksum. `settings` are those of packing. `skipped` names what was left out,
    and why.
    """

    profile: str
    count: int
    shards: tuple[Shard, ...]
    tables: dict[str, Table]
    row: Row | None = None
    classes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    extra: tuple[Shard, ...] = ()

    def document(self) -> dict[str, object]:
        """Return it as JSON, the digest included."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return {**body, "digest": _digest(body)}

    def text(self) -> str:
        """Return what stands in the file."""
        return json.dumps(self.document(), indent=1)


def read(folder: Path) -> tuple[Manifest, str]:
    """Return a store's manifest and its digest.

    Raises:
        StoreError: there is none, it is of another version, or it was altered.
    """
    document = _document(folder)
    if document.get("format") != FORMAT:
        raise StoreError(f"{folder} is not a hotlap store: its {NAME} is of another kind")
    if document.get("version") != VERSION:
        raise StoreError(
            f"{folder} has store version {document.get('version')}, this hotlap reads {VERSION}: "
            "pack it again, or use the hotlap that wrote it"
        )
    digest = document.pop("digest", "")
    if digest != _digest(document):
        raise StoreError(f"{folder / NAME} was altered after packing: pack again")
    return _manifest(document), digest


def _document(folder: Path) -> dict[str, object]:
    try:
        document = json.loads((folder / NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(_absent(folder)) from None
    except ValueError as error:  # bad JSON or bad UTF-8
        raise StoreError(f"{folder / NAME} is damaged ({error}): pack again") from None
    if not isinstance(document, dict):
        raise StoreError(f"{folder / NAME} is damaged (not an object): pack again")
    return document


def _absent(folder: Path) -> str:
    if not folder.exists():
        partial = folder.with_name(folder.name + ".partial")
        if partial.exists():
            return f"{folder} is not packed to its end: the same `hotlap pack` command resumes it"
        return f"{folder} does not exist"
    if folder.name.endswith(".partial"):
        return f"{folder} is half packed: the same `hotlap pack` command resumes it"
    return f"{folder} is not a hotlap store: it has no {NAME}"


def _digest(body: dict[str, object]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _manifest(document: dict[str, Any]) -> Manifest:
    row = document["row"]
    return Manifest(
        profile=document["profile"],
        count=document["count"],
        shards=tuple(Shard(**shard) for shard in document["shards"]),
        tables={
            name: Table(**{**table, "shape": tuple(table["shape"])})
            for name, table in document["tables"].items()
        },
        row=Row(row["dtype"], tuple(row["shape"])) if row else None,
        classes=tuple(document["classes"]),
        settings=document["settings"],
        skipped=tuple((name, why) for name, why in document["skipped"]),
        columns=document.get("columns", {}),
        extra=tuple(Shard(**shard) for shard in document.get("extra", ())),
    )
