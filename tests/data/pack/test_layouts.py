"""Thirty layouts of sources: each is packed with every field equal to the source, or is refused."""

import bz2
import csv
import gzip
import io
import json
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.images import encoded, photo
from hotlap.data.errors import PackError, StoreError
from hotlap.data.pack import pack
from hotlap.data.store import Store

COUNT = 6
JPEGS = [encoded(photo(seed, 20, 24)) for seed in range(COUNT)]
LABELS = [i % 3 for i in range(COUNT)]
NAMES = ["ant", "bee", "cat"]
CAPTIONS = [f"eine Ameise, Nr. {i} \N{SNOWMAN}" for i in range(COUNT)]
BOXES = [[[float(i), 2.5, 3.0, 4.0]] * (i % 3) for i in range(COUNT)]


def images(root, names=None):
    root.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(JPEGS):
        (root / (names[i] if names else f"{i}.jpg")).write_bytes(data)


def table(path, header, rows, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)


def csv_of_numbers(root):
    images(root / "images")
    table(root / "labels.csv", ["file", "label"], [(f"{i}.jpg", LABELS[i]) for i in range(COUNT)])
    return {"image": JPEGS, "label": LABELS, "file": [f"{i}.jpg" for i in range(COUNT)]}


def csv_with_numbers_that_are_files_too(root):
    """The labels 0 to 2 are also the names of files without their ending."""
    images(root)
    table(root / "labels.csv", ["label", "file"], [(LABELS[i], f"{i}.jpg") for i in range(COUNT)])
    return {"image": JPEGS, "label": LABELS, "file": [f"{i}.jpg" for i in range(COUNT)]}


def csv_of_class_names(root):
    images(root)
    rows = [(f"{i}.jpg", NAMES[LABELS[i]], CAPTIONS[i], i / 4) for i in range(COUNT)]
    table(root / "train.csv", ["path", "label", "caption", "score"], rows)
    return {"image": JPEGS, "label": LABELS, "classes": NAMES, "caption": CAPTIONS,
            "score": [i / 4 for i in range(COUNT)],
            "path": [f"{i}.jpg" for i in range(COUNT)]}  # fmt: skip


def tsv_without_endings(root):
    images(root / "train")
    rows = [(f"{i}", NAMES[LABELS[i]]) for i in range(COUNT)]
    table(root / "labels.tsv", ["id", "breed"], rows, "\t")
    return {"image": JPEGS, "label": LABELS, "classes": NAMES, "id": list(range(COUNT)),
            "with": {"label_column": "breed"}}  # fmt: skip


def metadata_jsonl(root):
    images(root)
    lines = [
        {"file_name": f"{i}.jpg", "text": CAPTIONS[i], "objects": {"bbox": BOXES[i]}}
        for i in range(COUNT)
    ]
    (root / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return {"image": JPEGS, "text": CAPTIONS, "objects": [{"bbox": box} for box in BOXES],
            "file_name": [f"{i}.jpg" for i in range(COUNT)]}  # fmt: skip


def two_tables(root):
    csv_of_numbers(root)
    table(root / "more.csv", ["file", "label"], [(f"{i}.jpg", i) for i in range(COUNT)])
    return "choose one with --labels"


def a_table_with_a_missing_file(root):
    csv_of_numbers(root)
    (root / "images" / "3.jpg").unlink()
    return r"the file 3.jpg \(column file\) does not exist"


def only_an_images_folder(root):
    images(root / "images")
    return "--labels FILE"


def one_class(root):
    images(root / "ant")
    return "every image in ant would have one label"


def class_folders(root):
    for i in range(COUNT):
        (root / NAMES[LABELS[i]]).mkdir(parents=True, exist_ok=True)
        (root / NAMES[LABELS[i]] / f"{i}.jpg").write_bytes(JPEGS[i])
    order = sorted(range(COUNT), key=lambda i: (LABELS[i], i))
    return {"image": [JPEGS[i] for i in order], "label": [LABELS[i] for i in order],
            "classes": NAMES}  # fmt: skip


def captions_beside(root):
    images(root)
    for i in range(COUNT):
        (root / f"{i}.txt").write_text(CAPTIONS[i])
        if i != 2:
            (root / f"{i}.json").write_text(json.dumps({"boxes": BOXES[i]}))
    return {"image": JPEGS, "txt": CAPTIONS,
            "json": [None if i == 2 else {"boxes": BOXES[i]} for i in range(COUNT)]}  # fmt: skip


def images_and_masks(root):
    images(root / "images")
    images(root / "masks")
    return r"the folders of .* \(images, masks\) would be the classes"


def split_folders(root):
    for split in ("train", "val"):
        images(root / split / "ant")
        images(root / split / "bee")
    return "holds the splits train, val"


def images_beside_classes(root):
    class_folders(root)
    (root / "x.jpg").write_bytes(JPEGS[0])
    return "lies beside the class folders"


def parquet(root):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    held = {
        "image": [{"bytes": data, "path": f"{i}.jpg"} for i, data in enumerate(JPEGS)],
        "label": LABELS, "caption": CAPTIONS, "boxes": BOXES, "big": [2**60 + i for i in range(6)],
        "maybe": [None if i == 1 else i for i in range(COUNT)],
        "vector": [np.arange(4, dtype="f4") + i for i in range(COUNT)],
        "ragged": [np.arange(i) for i in range(COUNT)],
        "tags": [["a"] * i for i in range(COUNT)],
    }  # fmt: skip
    pq.write_table(pa.table(held), root / "x.parquet", row_group_size=2)
    paths = [f"{i}.jpg" for i in range(COUNT)]
    return held | {"image": JPEGS, "image.path": paths, "at": "x.parquet"}


def parquet_of_text(root):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": CAPTIONS, "label": LABELS}), root / "x.parquet")
    return {"text": CAPTIONS, "label": LABELS, "at": "x.parquet"}


def parquet_of_unknown_types(root):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pictures = pa.array([[data] for data in JPEGS], pa.list_(pa.binary()))
    pq.write_table(pa.table({"label": LABELS, "frames": pictures}), root / "x.parquet")
    return "--drop frames"


def hub_splits(root):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for split in ("train", "test"):
        pq.write_table(pa.table({"text": CAPTIONS}), root / f"{split}-00000-of-00001.parquet")
    return r"holds several splits \(test, train\)"


def saved_to_disk(root):
    pa = pytest.importorskip("pyarrow")
    held = pa.table({"image": [{"bytes": d, "path": None} for d in JPEGS], "fine": LABELS})
    for name in ("data-00000-of-00001.arrow", "cache-1.arrow"):
        with pa.ipc.new_stream(str(root / name), held.schema) as writer:
            writer.write_table(held)
    features = {"image": {}, "fine": {"names": NAMES, "_type": "ClassLabel"}}
    (root / "dataset_info.json").write_text(json.dumps({"features": features}))
    files = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
    (root / "state.json").write_text(json.dumps(files))
    return {"image": JPEGS, "label": LABELS, "classes": NAMES, "with": {"label_column": "fine"}}


def webdataset(root):
    with tarfile.open(root / "x.tar", "w") as tar:
        for i in range(COUNT):
            mask = io.BytesIO()
            np.save(mask, np.arange(i))
            parts = {
                "jpg": JPEGS[i], "cls": str(LABELS[i]).encode(), "txt": CAPTIONS[i].encode(),
                "json": json.dumps({"boxes": BOXES[i], "width": i}).encode(),
                "npy": mask.getvalue(), "mask.png": encoded(photo(i, 8, 8), "PNG"),
            }  # fmt: skip
            for kind, data in parts.items():
                info = tarfile.TarInfo(f"{i:03d}.{kind}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return {
        "image": JPEGS, "label": LABELS, "txt": CAPTIONS, "width": list(range(COUNT)),
        "json": [{"boxes": BOXES[i], "width": i} for i in range(COUNT)],
        "npy": [np.arange(i) for i in range(COUNT)],
        "mask.png": [encoded(photo(i, 8, 8), "PNG") for i in range(COUNT)],
    }  # fmt: skip


def webdataset_of_constant_labels(root):
    with tarfile.open(root / "x.tar", "w") as tar:
        for i in range(COUNT):
            for kind, data in (("jpg", JPEGS[i]), ("cls", b"7")):
                info = tarfile.TarInfo(f"{i:03d}.{kind}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return "all 6 samples have the label 7"


def npz(root):
    x = np.random.default_rng(0).normal(size=(COUNT, 3, 4))
    masks = np.random.default_rng(1).integers(0, 9, (COUNT, 40, 50))
    np.savez(root / "x.npz", x=x, masks=masks, y=LABELS, names=np.array(CAPTIONS))
    return {"data": masks, "x": x, "label": LABELS, "names": CAPTIONS, "at": "x.npz"}


def npz_of_two_splits(root):
    np.savez(root / "x.npz", x_train=np.zeros((9, 3)), x_test=np.zeros((4, 3)))
    return "differ in length.*--drop NAME"


def hdf5(root):
    h5py = pytest.importorskip("h5py")
    x = np.random.default_rng(0).integers(0, 256, (COUNT, 5, 6, 3), dtype=np.uint8)
    with h5py.File(root / "x.h5", "w") as file:
        file["x"], file["train/y"] = x, LABELS
        file["caption"] = CAPTIONS
        ragged = file.create_dataset("points", COUNT, h5py.vlen_dtype("f4"))
        for i in range(COUNT):
            ragged[i] = np.arange(i, dtype="f4")
    points = [np.arange(i, dtype="f4") for i in range(COUNT)]
    return {"data": x, "label": LABELS, "caption": CAPTIONS, "points": points}


def hdf5_of_groups(root):
    h5py = pytest.importorskip("h5py")
    with h5py.File(root / "x.hdf5", "w") as file:
        for i in range(COUNT):
            group = file.create_group(f"{i:04d}")
            group["signal"], group["label"], group["text"] = np.arange(i + 1.0), LABELS[i], "x" * i
    signals = [np.arange(i + 1.0) for i in range(COUNT)]
    return {"signal": signals, "label": LABELS, "text": ["x" * i for i in range(COUNT)]}


def lmdb_of_images(root):
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(root), map_size=1 << 24) as base, base.begin(write=True) as change:
        for i in range(COUNT):
            change.put(f"{i:03d}".encode(), JPEGS[i])
    return {"image": JPEGS, "key": [f"{i:03d}" for i in range(COUNT)]}


def lmdb_of_numbered_fields(root):
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(root), map_size=1 << 24) as base, base.begin(write=True) as change:
        change.put(b"num-samples", b"6")
        for i in range(COUNT):
            change.put(f"image-{i + 1:09d}".encode(), JPEGS[i])
            change.put(f"label-{i + 1:09d}".encode(), CAPTIONS[i].encode())
    return {"image": JPEGS, "label": CAPTIONS, "with": {"label_column": "none"}}


def lmdb_of_datum(root):
    lmdb = pytest.importorskip("lmdb")
    pixels = np.stack([photo(i, 4, 5) for i in range(COUNT)])
    with lmdb.open(str(root), map_size=1 << 24) as base, base.begin(write=True) as change:
        for i in range(COUNT):
            raw = pixels[i].transpose(2, 0, 1).tobytes()
            head = bytes([8, 3, 16, 4, 24, 5, 34, len(raw)])
            change.put(f"{i:03d}".encode(), head + raw + bytes([40, LABELS[i]]))
    return {"data": pixels, "label": LABELS, "key": [f"{i:03d}" for i in range(COUNT)]}


def lmdb_of_pickles(root):
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(root), map_size=1 << 24) as base, base.begin(write=True) as change:
        change.put(b"0", pickle.dumps((JPEGS[0], 1)))
    return "pickles, which could run any code.*pack\\(dataset, DST\\)"


def tfrecord(root):
    writer = pytest.importorskip("tfrecord").TFRecordWriter(str(root / "x.tfrecord"))
    for i in range(COUNT):
        writer.write({
            "image/encoded": (JPEGS[i], "byte"), "image/class/label": (LABELS[i], "int"),
            "image/text": (CAPTIONS[i].encode(), "byte"), "score": (i / 2, "float"),
            "xmin": ([0.5] * i, "float"), "minus": (-i, "int"),
        })  # fmt: skip
    writer.close()
    return {"image": JPEGS, "label": LABELS, "image/text": CAPTIONS,
            "score": [i / 2 for i in range(COUNT)], "minus": [-i for i in range(COUNT)],
            "xmin": [np.full(i, 0.5, "f4") for i in range(COUNT)]}  # fmt: skip


def mds(root):
    """As MDSWriter of mosaicml-streaming 0.13 lays it out."""
    encodings = {"cap": "str", "img": "jpeg", "label": "int", "meta": "json", "score": "float32",
                 "var": "ndarray", "vec": "ndarray:float32:3"}  # fmt: skip
    sizes = {"label": 8, "score": 4, "vec": 12}
    samples = []
    for i in range(COUNT):
        array = np.arange(i + 1)
        parts = {
            "cap": CAPTIONS[i].encode(), "img": JPEGS[i], "label": np.int64(LABELS[i]).tobytes(),
            "meta": json.dumps({"boxes": BOXES[i]}).encode(), "score": np.float32(i).tobytes(),
            "var": bytes([65, 1 << 2, i + 1]) + array.tobytes(),
            "vec": np.full(3, i, "f4").tobytes(),
        }  # fmt: skip
        head = b"".join(struct.pack("<I", len(parts[k])) for k in encodings if k not in sizes)
        samples.append(head + b"".join(parts[k] for k in encodings))
    shards = []
    for number in range(2):
        mine = samples[number * 3 : number * 3 + 3]
        config = b"{}"
        start = 4 + 4 * 4 + len(config)
        ends = np.cumsum([start, *map(len, mine)]).astype("<u4")
        name = f"shard.{number:05d}.mds"
        head = struct.pack("<I", 3) + ends.tobytes() + config
        (root / name).write_bytes(head + b"".join(mine))
        shards.append({
            "column_encodings": list(encodings.values()), "column_names": list(encodings),
            "column_sizes": [sizes.get(name) for name in encodings], "compression": None,
            "format": "mds", "raw_data": {"basename": name}, "samples": 3, "version": 2,
        })  # fmt: skip
    (root / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))
    return {"image": JPEGS, "label": LABELS, "cap": CAPTIONS, "score": list(range(COUNT)),
            "meta": [{"boxes": box} for box in BOXES],
            "var": [np.arange(i + 1) for i in range(COUNT)],
            "vec": np.arange(COUNT)[:, None].repeat(3, 1)}  # fmt: skip


def mds_compressed(root):
    shard = {"format": "mds", "compression": "zstd", "samples": 1}
    (root / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))
    return "is compressed.*write it without compression="


def litdata(root):
    """As LitData 0.2.76 lays it out."""
    leaf = {"type": None, "context": None, "children_spec": []}
    names = ["image", "label", "cap", "vec", "arr", "ok"]
    formats = ["jpeg", "int", "str", "no_header_tensor:18", "numpy", "bool"]
    spec = [1, {"type": "builtins.dict", "context": json.dumps(names), "children_spec": [leaf] * 6}]
    chunks = []
    for number in range(2):
        items = []
        for i in range(number * 3, number * 3 + 3):
            array = np.full((2, i), i, "f4")
            parts = [
                JPEGS[i], struct.pack("<q", LABELS[i]), CAPTIONS[i].encode(),
                np.arange(i, dtype="i8").tobytes(),
                struct.pack("<4I", 9, 2, 2, i) + array.tobytes(), bytes([i % 2]),
            ]  # fmt: skip
            items.append(struct.pack("<6I", *map(len, parts)) + b"".join(parts))
        ends = np.cumsum([4 + 4 * 4, *map(len, items)]).astype("<u4")
        name = f"chunk-0-{number}.bin"
        (root / name).write_bytes(struct.pack("<I", 3) + ends.tobytes() + b"".join(items))
        chunks.append({"filename": name, "chunk_size": 3})
    config = {"data_format": formats, "data_spec": json.dumps(spec), "compression": None,
              "item_loader": "PyTreeLoader"}  # fmt: skip
    (root / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    return {"image": JPEGS, "label": LABELS, "cap": CAPTIONS, "ok": [i % 2 for i in range(COUNT)],
            "vec": [np.arange(i) for i in range(COUNT)],
            "arr": [np.full((2, i), i) for i in range(COUNT)]}  # fmt: skip


def cifar(root):
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (10, 3072), dtype=np.uint8)
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    for number in range(5):
        rows = slice(number * 2, number * 2 + 2)
        batch = {"data": data[rows], "labels": [number, number + 1], "batch_label": "batch",
                 "filenames": ["a.png", "b.png"]}  # fmt: skip
        (folder / f"data_batch_{number + 1}").write_bytes(pickle.dumps(batch, 2))
    meta = {"label_names": [f"class {i}" for i in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta, 2))
    return {"data": data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1),
            "label": [0, 1, 1, 2, 2, 3, 3, 4, 4, 5], "filenames": ["a.png", "b.png"] * 5,
            "with": {"split": "train"}}  # fmt: skip


def cifar_without_a_split(root):
    cifar(root)
    return "give --split train"


def mnist(root):
    x = np.random.default_rng(0).integers(0, 256, (COUNT, 28, 28), dtype=np.uint8)
    head = struct.pack(">HBBIII", 0, 8, 3, COUNT, 28, 28)
    (root / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + x.tobytes()))
    head = struct.pack(">HBBI", 0, 8, 1, COUNT)
    (root / "train-labels-idx1-ubyte").write_bytes(head + bytes(LABELS))
    return {"data": x, "label": LABELS, "with": {"split": "train"}}


def jsonl(root):
    rows = [{"text": CAPTIONS[i], "n": i, "meta": {"boxes": BOXES[i]}} for i in range(COUNT)]
    del rows[3]["n"]
    (root / "x.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return {"text": CAPTIONS, "n": [0, 1, 2, None, 4, 5], "meta": [row["meta"] for row in rows],
            "at": "x.jsonl.gz"}  # fmt: skip


def text_lines(root):
    (root / "x.txt").write_text("\n".join([*CAPTIONS[:3], "", *CAPTIONS[3:]]) + "\n")
    return {"text": [*CAPTIONS[:3], "", *CAPTIONS[3:]], "at": "x.txt"}


def csv_table(root):
    rows = [(f"00{i}", i, i / 8, "" if i == 2 else CAPTIONS[i]) for i in range(COUNT)]
    table(root / "x.csv", ["code", "count", "share", "note"], rows)
    return {"code": [f"00{i}" for i in range(COUNT)], "count": list(range(COUNT)),
            "share": [i / 8 for i in range(COUNT)],
            "note": [None if i == 2 else CAPTIONS[i] for i in range(COUNT)]}  # fmt: skip


def unpacked_before(root):
    (root / "x.tar.gz").write_bytes(bz2.compress(b"x"))
    return "has no images in it .* it has 1 x .gz"


PACKED = [
    csv_of_numbers, csv_with_numbers_that_are_files_too, csv_of_class_names, tsv_without_endings,
    metadata_jsonl, class_folders,
    captions_beside, parquet, parquet_of_text, saved_to_disk, webdataset, npz, hdf5, hdf5_of_groups,
    lmdb_of_images, lmdb_of_numbered_fields, lmdb_of_datum, tfrecord, mds, litdata, cifar, mnist,
    jsonl, text_lines, csv_table,
]  # fmt: skip
REFUSED = [
    two_tables, a_table_with_a_missing_file, only_an_images_folder, one_class, images_and_masks,
    split_folders, images_beside_classes, parquet_of_unknown_types, hub_splits, npz_of_two_splits,
    lmdb_of_pickles, mds_compressed, cifar_without_a_split, webdataset_of_constant_labels,
    unpacked_before,
]  # fmt: skip


@pytest.mark.parametrize("layout", PACKED, ids=lambda layout: layout.__name__)
def test_every_field_of_a_layout_comes_back(layout, tmp_path):
    root = tmp_path / "src"
    root.mkdir()
    wanted = layout(root)
    how = wanted.pop("with", {})
    source = root / wanted.pop("at", "")
    pack(source, tmp_path / "s", workers=1, shards=2, **how)
    store = Store(tmp_path / "s")
    classes = wanted.pop("classes", None)
    if classes is not None:
        assert list(store.classes) == classes
    data = wanted.pop("image", wanted.pop("data", None))
    assert set(store.field_names) == set(wanted), "nothing is left out, nothing is made up"
    assert store.verify() == []
    for index in range(len(store)):
        if data is not None:
            same(store.sample(index)["data"], data[index])
        for name, values in wanted.items():
            assert len(values) == len(store)
            same(store.value(index, name), values[index])


def same(got, wanted):
    if isinstance(wanted, (np.ndarray, list)) and not isinstance(got, list):
        assert np.array_equal(got, wanted)
    else:
        assert got == wanted


@pytest.mark.parametrize("layout", REFUSED, ids=lambda layout: layout.__name__)
def test_what_says_too_little_is_refused_with_what_to_do(layout, tmp_path):
    root = tmp_path / "src"
    root.mkdir()
    says = layout(root)
    source = root / "x.npz" if (root / "x.npz").exists() else root
    with pytest.raises(PackError, match=says):
        pack(source, tmp_path / "s", workers=1)


def test_what_cannot_be_read_at_random_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.tar")
    with pytest.raises(PackError, match="is no file and no folder"):
        pack(tmp_path / "pipe.tar", tmp_path / "s")
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(PackError, match="is a loop of links"):
        pack(tmp_path / "a", tmp_path / "s")
    class_folders(tmp_path / "src")
    with pytest.raises(PackError, match="lies in its own source"):
        pack(tmp_path / "src", tmp_path / "src" / "packed")
    with pytest.raises(PackError, match="is a hotlap store already"):
        pack(pack(tmp_path / "src", tmp_path / "s", workers=1).path, tmp_path / "t")
    (tmp_path / "src" / "ant" / "up").symlink_to(tmp_path / "src")
    with pytest.raises(PackError, match="is a link to a folder above it"):
        pack(tmp_path / "src", tmp_path / "u")


def test_a_fifo_among_images_is_a_bad_sample(tmp_path):
    class_folders(tmp_path / "src")
    os.mkfifo(tmp_path / "src" / "bee" / "x.jpg")
    with pytest.raises(PackError, match=r"bee/x.jpg: is not a regular file"):
        pack(tmp_path / "src", tmp_path / "s", workers=1)


def test_an_altered_name_table_is_seen_on_opening(tmp_path):
    class_folders(tmp_path / "src")
    store = pack(tmp_path / "src", tmp_path / "s", workers=1)
    path = store.path / "names.tab"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(StoreError, match=r"names\.tab was altered after packing"):
        Store(store.path)


def test_there_are_thirty_layouts_or_more():
    assert len(PACKED) + len(REFUSED) >= 30


def test_what_is_left_out_is_named(tmp_path):
    from hotlap.data.pack.sources import source_of

    class_folders(tmp_path / "src")
    (tmp_path / "src" / "README.md").write_text("x")
    assert source_of(tmp_path / "src").left_out == ("1 files that are no images: README.md",)


def test_constant_labels_are_packed_when_that_is_said(tmp_path):
    (tmp_path / "src").mkdir()
    webdataset_of_constant_labels(tmp_path / "src")
    with pytest.raises(PackError, match="what is packed stays"):
        pack(tmp_path / "src", tmp_path / "s", shards=3, workers=1)
    states = []
    store = pack(tmp_path / "src", tmp_path / "s", shards=3, workers=1, constant_label=True,
                 progress=states.append)  # fmt: skip
    assert store.fields["label"].tolist() == [7] * COUNT
    assert states[-1].resumed == COUNT


def test_any_map_style_dataset_is_packed(tmp_path):
    class Own:
        classes = NAMES

        def __len__(self):
            return COUNT

        def __getitem__(self, index):
            image = Image.fromarray(photo(index, 9, 7))
            return {"image": image, "label": LABELS[index], "points": torch.arange(index)}

    store = pack(Own(), tmp_path / "s", workers=1)
    assert store.classes == tuple(NAMES)
    for i in range(COUNT):
        found = store.sample(i)
        pixels = np.asarray(Image.open(io.BytesIO(found["data"])))
        assert np.array_equal(pixels, photo(i, 9, 7))
        assert found["label"] == LABELS[i]
        assert found["points"].tolist() == list(range(i))


def test_values_of_variable_length_are_checked(tmp_path):
    (tmp_path / "src").mkdir()
    jsonl(tmp_path / "src")
    store = pack(tmp_path / "src" / "x.jsonl.gz", tmp_path / "s", workers=1)
    path = Path(store.path) / "shard-00000.extra.bin"
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    store = Store(store.path)
    with pytest.raises(StoreError, match="was altered after packing"):
        store.sample(0)
    assert len(store.verify()) == 1
    path.write_bytes(data[:-1])
    with pytest.raises(StoreError, match="bytes, packed were"):
        Store(store.path)
