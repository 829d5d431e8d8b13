"""What the user gives a loader: checked, and turned into what it works with."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data import IterableDataset

from hotlap.data.decode import Decoder
from hotlap.data.decode.device import DeviceDecoder
from hotlap.data.decode.together import Together
from hotlap.data.loader.datasets import DatasetReader
from hotlap.data.loader.device_decode import DeviceDecode
from hotlap.data.loader.encoded import EncodedReader
from hotlap.data.loader.images import ImageReader, Images, PerImage, per_image
from hotlap.data.loader.reading import Reader
from hotlap.data.loader.stage import ToDevice
from hotlap.data.loader.stores import Collate, RecordReader, RowReader
from hotlap.data.store import Store
from hotlap.data.transforms.base import Batched

Transform = Batched | Sequence[Batched] | Callable[[Any], object] | None


def reader_of(
    data: object,
    how: PerImage,
    fields: Sequence[str] | None,
    decoder: Decoder | DeviceDecoder,
    collate: Collate | None,
    seed: int,
    on_error: str,
) -> Reader:
    """Return what reads the data: by its kind."""
    replace_bad = on_error == "replace"
    if hasattr(data, "reader"):
        made: Reader = data.reader(seed)
        return made
    if not isinstance(data, Store):
        return _of_dataset(data, collate, seed, replace_bad)
    names = _field_names(data, fields)
    if data.profile == "records":
        return RecordReader(data, tuple(fields or ()), collate)
    if data.profile == "raw":
        return RowReader(data, names)
    if isinstance(decoder, DeviceDecoder):
        images = Images(data, names, how, decoder.cpu, seed, replace_bad)
        return EncodedReader(images, decoder)
    return ImageReader(Images(data, names, how, decoder, seed, replace_bad))


def _of_dataset(data: object, collate: Collate | None, seed: int, replace_bad: bool) -> Reader:
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__"):
        raise TypeError(
            f"{type(data).__name__} has no samples by number, which order and resume need: pack "
            "it, or keep a DataLoader and put DevicePrefetcher around it"
        )
    return DatasetReader(data, collate, seed, replace_bad)


def _field_names(data: Store, fields: Sequence[str] | None) -> tuple[str, ...]:
    """Return the fields to read: those asked for, or the label where there is one."""
    names = tuple(fields) if fields is not None else ("label",) * ("label" in data.fields)
    if missing := set(names) - set(data.field_names):
        raise ValueError(
            f"{data.path} has no field {sorted(missing)}, only {sorted(data.field_names)}"
        )
    if data.profile == "tokens":
        raise ValueError(f"{data.path} holds tokens: Loader(TokenWindows(store, length), ...)")
    return names


def device_decode_of(
    reader: Reader, decoder: Decoder | DeviceDecoder, device: torch.device | None
) -> ToDevice | None:
    """Return what decodes batches on the device, where that is asked for."""
    if not isinstance(decoder, DeviceDecoder):
        return None
    if not isinstance(reader, EncodedReader):
        raise TypeError(
            "DeviceDecoder is for stores of encoded images (profiles jpeg and jpeg256), which this "
            "loader does not read: leave `decoder` out"
        )
    where = device or torch.device("cpu")
    return DeviceDecode(reader.images, Together(decoder.ready(device), where), where)


def split(
    transform: Transform,
    data: object,
    decoder: Decoder | DeviceDecoder,
    device: torch.device | None,
) -> tuple[PerImage, tuple[Batched, ...] | Callable[[Any], object]]:
    """Part what is done while decoding from what is done to batches, on the device."""
    if transform is None:
        return PerImage(), ()
    if isinstance(transform, Batched):
        transform = (transform,)
    if not isinstance(transform, Sequence):
        return PerImage(), transform
    if wrong := [each for each in transform if not isinstance(each, Batched)]:
        raise TypeError(
            f"{wrong[0]!r} is no transform of hotlap.data.transforms: a function of your own must "
            "stand alone (it gets the batch), or in the dataset"
        )
    if not (isinstance(data, Store) and data.profile.startswith("jpeg")):
        return PerImage(), tuple(transform)
    if isinstance(decoder, DeviceDecoder):
        return per_image(transform, decoder.cpu, on_cpu=False)
    return per_image(transform, decoder, on_cpu=device is None or device.type == "cpu")


def check(batch_size: int, workers: int | None, threads: int | None, on_error: str) -> None:
    """Refuse numbers out of their range."""
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, should be at least 1")
    if workers is not None and workers < 0:
        raise ValueError(f"workers is {workers}, should be 0 or more")
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}, should be at least 1")
    if on_error not in {"raise", "replace"}:
        raise ValueError(f"on_error is {on_error!r}, should be raise or replace")


def device_of(device: torch.device | str | int | None) -> torch.device | None:
    """Return the device; a number is that of a CUDA device."""
    if device is None:
        return None
    return torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
