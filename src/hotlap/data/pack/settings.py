"""What a packing is to do."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hotlap.data.errors import PackError
from hotlap.data.store.manifest import PROFILES

POLICIES = ("raise", "skip", "replace")
MOST_SHARDS = 512


@dataclass(frozen=True)
class Settings:
    """How samples are kept.

    Args:
        profile: "auto" takes the one that fits the source. "jpeg" keeps image files as they are;
            "jpeg256" keeps them as JPEGs with a short side of 256 at most; "raw" decodes them to
            uint8 rows, and keeps tensors as they are; "tokens" keeps a token stream; "records"
            keeps all fields as they are, without one of them as the data.
        resize: short side N (profile raw also crops the middle N x N), or (height, width). For
            jpeg256 it replaces the 256; smaller images are not enlarged in the JPEG profiles.
        shuffle: store samples in random order, so that reading in order is reading at random.
        seed: of that order.
        shards: files; by default one for 1,000 samples, 512 at most. Each is packed by one process,
            and is what an interrupted packing resumes by.
        quality: of JPEGs that are encoded anew.
        decoder: simplejpeg, opencv, pil, or auto.
        exif: turn images as their EXIF orientation says.
        strict: damaged data inside a file is an error (see `Decoder`).
        on_error: what to do with a sample that cannot be read: "raise", "skip", or "replace" it by
            another one that the seed picks.
        max_error_rate: the largest share of samples that may be bad.
        label_column: the field that is the label; "none" keeps the source without one.
        labels: a CSV, TSV or JSON-lines file that says of each image what it is.
        split: the part of a source that holds several, such as "train".
        drop: fields to leave out.
        constant_label: all samples may have the same label.
    """

    profile: str = "auto"
    resize: int | tuple[int, int] | None = None
    shuffle: bool = False
    seed: int = 0
    shards: int | None = None
    quality: int = 92
    decoder: str = "auto"
    exif: bool = False
    strict: bool = True
    on_error: str = "raise"
    max_error_rate: float = 0.01
    label_column: str | None = None
    labels: str | None = None
    split: str | None = None
    drop: tuple[str, ...] = ()
    constant_label: bool = False

    def __post_init__(self) -> None:
        _one_of("profile", self.profile, ("auto", *PROFILES))
        _one_of("on_error", self.on_error, POLICIES)
        if self.shards is not None and not 1 <= self.shards <= MOST_SHARDS:
            raise PackError(f"shards is {self.shards}, should be 1 to {MOST_SHARDS}")
        if not 1 <= self.quality <= 100:
            raise PackError(f"quality is {self.quality}, should be 1 to 100")
        if not 0 <= self.max_error_rate <= 1:
            raise PackError(
                f"max_error_rate is {self.max_error_rate}, should be a share from 0 to 1"
            )
        if self.resize is not None and min(_sides(self.resize)) < 1:
            raise PackError(f"resize is {self.resize}, should be at least 1")

    def document(self) -> dict[str, object]:
        """Return it as it is written into the manifest."""
        return asdict(self)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise PackError(f"{name} is {value!r}, should be one of {', '.join(known)}")


def _sides(resize: int | tuple[int, int]) -> tuple[int, ...]:
    return resize if isinstance(resize, tuple) else (resize,)


def renamed(options: Mapping[str, object]) -> dict[str, Any]:
    """Return options under their present names; the former ones are deprecated."""
    names = {"bad": "on_error", "bad_limit": "max_error_rate"}
    for old in names.keys() & options.keys():
        message = f"{old}= is called {names[old]}= now"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    return {names.get(name, name): value for name, value in options.items()}
