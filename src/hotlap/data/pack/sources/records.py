"""Samples as named values: which of them is the data, which the label, and how each is kept."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hotlap.common.extras import need
from hotlap.data.errors import PackError
from hotlap.data.pack.settings import Settings
from hotlap.data.pack.sources.base import Plain, Sample, looks_like_image

LABELS = ("label", "labels", "cls", "class", "target", "targets", "fine_label", "fine_labels")
"""Names that a label goes by, the likelier ones first."""
IMAGES = ("image", "img", "jpg", "jpeg", "png", "pixel_values")
ROW_BYTES = 1024
"""Arrays of one shape up to this size are kept as a table in memory, larger ones on the disk."""
_FIXED = {"number", "row"}


@dataclass(frozen=True)
class Kind:
    """How a field is kept: number, row (an array of one shape), text, bytes, image, array, json."""

    name: str
    size: int = 0


class Records(Plain):
    """A source whose samples are named values: subclasses say what there is, and `settle` the rest.

    A subclass has `record(index)`, and calls `settle` with the kind of each field. Every field is
    then kept: an image, or else the largest array of one shape, is the sample's data; numbers and
    small arrays are tables; all else is stored at its own length.
    """

    kind = "records"
    label_names: tuple[str, ...] = LABELS
    main: str | None = None
    label: str | None = None

    def __init__(self, where: str, how: Settings | None = None) -> None:
        self.where = where
        self.how = how or Settings()

    def __len__(self) -> int:
        raise NotImplementedError

    def record(self, index: int) -> dict[str, Any]:
        """Return the values of one sample by name."""
        raise NotImplementedError

    def distinct(self, name: str) -> set[object]:
        """Return the values that a field takes."""
        return {self.record(index).get(name) for index in range(len(self))}

    def settle(
        self, kinds: Mapping[str, Kind], classes: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """Decide what each field is to the store.

        Args:
            kinds: of the fields, by name.
            classes: names of the classes of fields that are numbers, where the source knows them.

        Raises:
            PackError: nothing is there, or `--drop` or `--label-column` name no field.
        """
        if not len(self):
            raise PackError(f"there are no samples in {self.where}")
        left = self._without_dropped(dict(kinds))
        self.label = self._label_of(left)
        others = {name: kind for name, kind in left.items() if name != self.label}
        self.main, self.profile = self._main_of(others)
        if self.label is not None:
            self._settle_label(left[self.label], (classes or {}).get(self.label, ()))
        self._names_of = {name: list(names) for name, names in (classes or {}).items()}
        others.pop(self.main or "", None)
        self._kept = tuple(others)
        if "label" in others and self.label is not None:
            raise PackError(f"{self.where} has a field 'label' beside {self.label}: --drop label")
        self.columns = {name: _stored(kind) for name, kind in others.items() if _varies(kind)}
        if self.label is not None and _varies(left[self.label]) and not self.classes:
            self.columns["label"] = _stored(left[self.label])

    def read(self, index: int) -> Sample:
        """Read one sample."""
        values = self.record(index)
        fields = {name: values.get(name) for name in self._kept}
        if self.label is not None:
            fields["label"] = self._label(values.get(self.label), index)
        data = values.get(self.main) if self.main is not None else None
        if self.main is not None and data is None:
            raise ValueError(f"the sample has no {self.main} in it")
        return Sample(data, self.name(index), fields)

    def name(self, index: int) -> str:
        """Return where a sample lies."""
        return f"{self.where}[{index}]"

    def about(self) -> dict[str, object]:
        """Return which field became the data, which the label, and the classes of others."""
        classes = {name: names for name, names in self._names_of.items() if name != self.label}
        return {"data_field": self.main, "label_field": self.label, "class_names": classes}

    def _without_dropped(self, kinds: dict[str, Kind]) -> dict[str, Kind]:
        for name in self.how.drop:
            if name not in kinds:
                raise PackError(f"--drop {name}: {self.where} has only {', '.join(kinds)}")
            del kinds[name]
            self.left_out = (*self.left_out, f"field {name} (as asked)")
        return kinds

    def _label_of(self, kinds: Mapping[str, Kind]) -> str | None:
        asked = self.how.label_column
        if asked == "none":
            return None
        if asked is not None:
            if asked not in kinds:
                raise PackError(f"--label-column {asked}: {self.where} has {', '.join(kinds)}")
            return asked
        lower = {name.lower().rpartition("/")[2]: name for name in reversed(list(kinds))}
        found = [lower[name] for name in self.label_names if name in lower]
        return next((name for name in found if self._can_be_label(name, kinds[name])), None)

    def _can_be_label(self, name: str, kind: Kind) -> bool:
        """Whether a field may be taken for the label without being named as such."""
        if kind.name == "text":
            return len(self.distinct(name)) <= max(2, len(self) // 2)
        return kind.name in _FIXED or name == "label"

    def _settle_label(self, kind: Kind, names: Sequence[str]) -> None:
        self.classes = tuple(names)
        if kind.name != "text":
            return
        values = self.distinct(self.label or "")
        if None in values:
            raise PackError(
                f"{self.where}: some samples have no {self.label}: fill them in, or give "
                "--label-column none to keep the field as text"
            )
        self.classes = tuple(sorted(map(str, values)))
        self._number_of = {name: number for number, name in enumerate(self.classes)}

    def _label(self, value: object, index: int) -> object:
        if isinstance(value, str) and self.classes:
            return self._number_of[value]
        if value is None and "label" not in self.columns:
            raise ValueError(f"{self.name(index)} has no label")
        return value

    def _main_of(self, kinds: Mapping[str, Kind]) -> tuple[str | None, str]:
        """Return the field that is the data, and the profile that fits it."""
        if self.how.profile == "records":
            return None, "records"
        images = [name for name, kind in kinds.items() if kind.name == "image"]
        if images:
            usual = [name for name in images if name.lower().partition("/")[0] in IMAGES]
            return (usual or images)[0], "jpeg"
        rows = [name for name, kind in kinds.items() if kind.name == "row"]
        if rows:
            return max(rows, key=lambda name: kinds[name].size), "raw"
        return None, "records"


def scanned(records: Iterable[Mapping[str, object]]) -> dict[str, Kind]:
    """Return the kind of each field of some records, by looking at all of them.

    Raises:
        PackError: a field has values that cannot be kept, or of kinds that do not go together.
    """
    seen: dict[str, Counter[Kind]] = {}
    count = 0
    for record in records:
        count += 1
        for name, value in record.items():
            seen.setdefault(str(name), Counter())[kind_of(value, str(name))] += 1
    return {name: common(kinds, count, name) for name, kinds in seen.items()}


def kind_of(value: object, name: str) -> Kind:
    """Return the kind of one value; of None it is "none"."""
    numpy = need("numpy")
    if value is None:
        return Kind("none")
    if isinstance(value, bool | int | float | numpy.number | numpy.bool_):
        return Kind("number")
    if isinstance(value, str):
        return Kind("text")
    if isinstance(value, bytes | bytearray | memoryview):
        return Kind("image" if looks_like_image(bytes(value[:32])) else "bytes")
    if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
        return Kind(f"row {value.dtype.str} {value.shape}", value.nbytes)
    if isinstance(value, list | dict | tuple):
        return Kind("json")
    raise PackError(
        f"the field {name} holds a {type(value).__name__}, which a store cannot keep: --drop {name}"
    )


def common(kinds: Mapping[Kind, int], count: int, name: str) -> Kind:
    """Return the kind that keeps all values of a field, of which `count` there should be."""
    names = {kind.name for kind in kinds}
    gaps = "none" in names or sum(kinds.values()) < count
    names.discard("none")
    if names <= {"image", "bytes"} and names:
        images = kinds.get(Kind("image"), 0)
        return Kind("image" if images > kinds.get(Kind("bytes"), 0) else "bytes")
    if names == {"text"}:
        return Kind("text")
    if names == {"number"} and not gaps:
        return Kind("number")
    if names and all(each.startswith("row ") for each in names):
        one = next(iter(kinds))
        return Kind("row", one.size) if len(names) == 1 and not gaps else Kind("array")
    if names <= {"number", "text", "json"}:
        return Kind("json")
    raise PackError(f"the field {name} is of several kinds ({', '.join(names)}): --drop {name}")


def _varies(kind: Kind) -> bool:
    """Whether a field that is not the data is kept at its own length."""
    return kind.name not in _FIXED or (kind.name == "row" and kind.size > ROW_BYTES)


def _stored(kind: Kind) -> str:
    return {"image": "bytes", "row": "array"}.get(kind.name, kind.name)
