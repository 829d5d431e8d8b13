"""Join finished shards to a store, and let it appear in one step."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from hotlap.common.disk import sync_folder
from hotlap.common.extras import Array, need
from hotlap.data.errors import PackError
from hotlap.data.store import check, manifest, shard
from hotlap.data.store.files import room, write_whole
from hotlap.data.store.manifest import Manifest, Row, Shard, Table

KEEP_REASONS = 1000


def partial_of(target: Path) -> Path:
    """Return where a store is built: beside its place, on the same disk."""
    return target.with_name(target.name + ".partial")


def publish(
    target: Path,
    shards: int,
    profile: str,
    *,
    classes: Sequence[str] = (),
    settings: dict[str, object] | None = None,
    extra: dict[str, Array] | None = None,
    columns: Mapping[str, str] | None = None,
) -> Manifest:
    """Write tables and manifest into the partial folder and rename it to `target`.

    Args:
        target: where the store is to be; must not exist.
        shards: how many shards lie in the partial folder, all finished.
        profile: one of `manifest.PROFILES`.
        classes: names of the classes.
        settings: what the store was packed with.
        extra: further tables, by name, as arrays.
        columns: kinds of the fields of variable length, by name.
    """
    folder = partial_of(target)
    parts = [_finished(folder, index) for index in range(shards)]
    tables = _joined(parts) | (extra or {})
    found = Manifest(
        profile=profile,
        count=sum(part.samples for part in parts),
        shards=tuple(
            Shard(shard.file_name(index), part.bytes, part.samples)
            for index, part in enumerate(parts)
        ),
        tables={name: _write(folder, name, array) for name, array in tables.items()},
        row=_row(parts),
        classes=tuple(classes),
        settings=settings or {},
        skipped=tuple(entry for part in parts for entry in part.skipped)[:KEEP_REASONS],
        columns=dict(columns or {}),
        extra=tuple(
            Shard(shard.extra_name(index), part.extra_bytes, part.samples)
            for index, part in enumerate(parts)
            if columns
        ),
    )
    write_whole(folder / manifest.NAME, found.text().encode())
    shard.drop_sidecars(folder)
    _appear(folder, target)
    return found


def _finished(folder: Path, index: int) -> shard.Written:
    part = shard.load(folder, index)
    if part is None:
        raise PackError(f"{folder / shard.file_name(index)} is not whole: pack again")
    return part


def _joined(parts: list[shard.Written]) -> dict[str, Array]:
    numpy = need("numpy")
    full = [part for part in parts if part.samples] or parts[:1]
    if any(part.tables.keys() != full[0].tables.keys() for part in full):
        raise PackError("the shards hold different fields: every sample needs the same")
    joined = {
        name: numpy.concatenate([part.tables[name] for part in full]) for name in full[0].tables
    }
    before = numpy.cumsum([0, *(len(part.tables["names"]) for part in full)])
    joined["name_end"] = numpy.concatenate(
        [part.tables["name_end"] + start for part, start in zip(full, before, strict=False)]
    )
    return joined


def _row(parts: list[shard.Written]) -> Row | None:
    rows = {part.row for part in parts if part.row}
    if len(rows) > 1:
        raise PackError(f"rows must be alike, found {sorted(rows)}: for images give --resize")
    return Row(*rows.pop()) if rows else None


def _write(folder: Path, name: str, array: Array) -> Table:
    data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    file = f"{quote(name, safe=' ')}.tab"  # a column's name may hold a slash
    write_whole(folder / file, data)
    return Table(file, array.dtype.newbyteorder("<").str, tuple(array.shape), check.text(data))


def _appear(folder: Path, target: Path) -> None:
    with room(target):
        sync_folder(folder)
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        if target.exists():
            raise PackError(f"{target} exists: remove it, or choose another place")
        folder.rename(target)
        sync_folder(target.parent)


def discard(target: Path) -> None:
    """Remove what an unfinished packing left."""
    shutil.rmtree(partial_of(target), ignore_errors=True)
