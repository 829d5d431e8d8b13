import io
import json
import tarfile

import numpy as np
import pytest
import torch

from data.images import encoded, folder, photo
from hotlap.data.decode import Decoder
from hotlap.data.errors import PackError
from hotlap.data.pack import pack
from hotlap.data.pack.sources import Arrays, TarShards, TokenStream, source_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def rows(store):
    out = np.empty((len(store), store.length(0)), np.uint8)
    store.rows_into(range(len(store)), out)
    return out.view(store.row.dtype).reshape(-1, *store.row.shape)


def test_an_image_folder_keeps_files_classes_and_paths(tmp_path):
    paths = folder(tmp_path / "src", classes=3)
    (tmp_path / "src" / "class1" / "notes.txt").write_text("x")
    (tmp_path / "src" / ".cache").mkdir()
    store = pack(tmp_path / "src", tmp_path / "s", workers=1)
    assert [store.payload(i) for i in range(18)] == [path.read_bytes() for path in paths]
    assert store.classes == ("class0", "class1", "class2")
    assert store.fields["label"].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert store.name(7) == "class1/001.jpg"


def test_a_folder_without_classes_has_no_labels(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(encoded(photo(0), "PNG"))
    store = pack(tmp_path / "in", tmp_path / "s", workers=1)
    assert (len(store), store.classes, store.fields) == (1, (), {})


def test_empty_folders_are_named(tmp_path):
    with pytest.raises(PackError, match="has no images in it"):
        source_of(tmp_path)
    folder(tmp_path / "src")
    (tmp_path / "src" / "empty").mkdir()
    with pytest.raises(PackError, match=r"class folder .*empty has no images: remove it"):
        source_of(tmp_path / "src")


def tarred(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def test_tar_shards_join_members_of_one_name(tmp_path):
    jpegs = [encoded(photo(seed)) for seed in range(6)]
    (tmp_path / "in").mkdir()
    for shard in range(2):
        tarred(
            tmp_path / "in" / f"{shard}.tar",
            [
                (f"d/{i}.{kind}", data)
                for i in range(shard * 3, shard * 3 + 3)
                for kind, data in (
                    ("jpg", jpegs[i]),
                    ("cls", b"%d\n" % (i % 4)),
                    ("json", json.dumps({"width": i * 1.5, "text": "no"}).encode()),
                )
            ],
        )
    store = pack(tmp_path / "in", tmp_path / "s", workers=2, shards=3)
    assert [store.payload(i) for i in range(6)] == jpegs
    assert store.fields["label"].tolist() == [0, 1, 2, 3, 0, 1]
    assert store.fields["width"].tolist() == [0, 1.5, 3, 4.5, 6, 7.5]
    assert store.name(4) == "1.tar/d/4"


def test_compressed_and_broken_tars_are_refused(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w:gz"):
        pass
    with pytest.raises(PackError, match="must be a whole, uncompressed tar"):
        TarShards([tmp_path / "x.tar"])


def test_npy_in_tar_becomes_rows(tmp_path):
    arrays = np.random.default_rng(0).normal(size=(4, 3, 2)).astype("f4")
    members = []
    for i, array in enumerate(arrays):
        buffer = io.BytesIO()
        np.save(buffer, array)
        members += [(f"{i}.npy", buffer.getvalue()), (f"{i}.cls", b"%d" % i)]
    tarred(tmp_path / "x.tar", members)
    assert np.array_equal(rows(pack(tmp_path / "x.tar", tmp_path / "s", profile="raw")), arrays)


def table(count=7):
    jpegs = [encoded(photo(seed)) for seed in range(count)]
    images = pa.array([{"bytes": data, "path": None} for data in jpegs])
    labels = pa.array([i % 3 for i in range(count)])
    return jpegs, pa.table({"image": images, "label": labels, "text": ["t"] * count})


@pytest.mark.parametrize("kind", ["parquet", "stream", "file"])
def test_tables_give_images_and_labels(tmp_path, kind):
    jpegs, held = table()
    path = tmp_path / ("x.parquet" if kind == "parquet" else "x.arrow")
    if kind == "parquet":
        pq.write_table(held, path, row_group_size=2)
    else:
        new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with new(str(path), held.schema) as writer:
            writer.write_table(held, max_chunksize=3)
    store = pack(path, tmp_path / "s", workers=2, shards=2, shuffle=True, seed=4)
    assert sorted(store.payload(i) for i in range(7)) == sorted(jpegs)
    for i in range(7):
        assert jpegs.index(store.payload(i)) % 3 == store.fields["label"][i]
    assert sorted(p.suffix for p in (tmp_path / "s").iterdir() if p.suffix == ".arrow") == []


def test_a_saved_hugging_face_dataset_gives_its_class_names(tmp_path):
    _, held = table()
    with pa.ipc.new_stream(str(tmp_path / "data-00000-of-00001.arrow"), held.schema) as writer:
        writer.write_table(held)
    info = {"features": {"image": {}, "label": {"names": ["a", "b", "c"], "_type": "ClassLabel"}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    assert source_of(tmp_path).classes == ("a", "b", "c")
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(PackError, match="holds several splits: name one"):
        source_of(tmp_path)


def test_number_lists_become_rows(tmp_path):
    values = np.random.default_rng(0).normal(size=(5, 4)).astype("f4")
    column = pa.array(values.tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"x": column, "y": [1, 2, 3, 4, 5]}), tmp_path / "x.parquet")
    store = pack(tmp_path / "x.parquet", tmp_path / "s", profile="raw")
    assert np.array_equal(rows(store), values)
    assert store.fields["y"].tolist() == [1, 2, 3, 4, 5]


def test_arrays_in_memory_and_in_files_keep_dtype_and_shape(tmp_path):
    x = np.random.default_rng(1).normal(size=(9, 2, 3)).astype("f2")
    y = np.arange(9)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    torch.save((torch.from_numpy(x), torch.from_numpy(y)), tmp_path / "x.pt")
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "d" / "x.npy", x)
    np.save(tmp_path / "d" / "labels.npy", y)
    sources = [
        Arrays({"x": torch.from_numpy(x), "y": y}),
        *(source_of(tmp_path / name) for name in ("x.npz", "x.pt", "d")),
    ]
    for number, source in enumerate(sources):
        store = pack(source, tmp_path / f"s{number}", profile="raw", workers=2, shards=2)
        assert np.array_equal(rows(store), x)
        assert store.fields["label"].tolist() == y.tolist()


def test_arrays_of_unequal_length_are_refused():
    with pytest.raises(PackError, match="differ in length"):
        Arrays({"x": np.zeros((3, 2)), "y": np.zeros(2)})


def test_image_arrays_can_be_encoded(tmp_path):
    x = np.stack([photo(seed) for seed in range(3)])
    store = pack(Arrays({"x": x}), tmp_path / "s", profile="jpeg", quality=100)
    for i in range(3):
        gap = np.abs(Decoder()(store.payload(i)).astype(int) - x[i])
        assert gap.mean() < 3
    with pytest.raises(PackError, match="pack it with --profile raw"):
        pack(Arrays({"x": np.zeros((3, 4))}), tmp_path / "t", profile="jpeg")


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_a_token_stream_comes_back(tmp_path, dtype):
    tokens = np.random.default_rng(2).integers(0, 50, 150_001).astype(dtype)
    tokens[:70_000].tofile(tmp_path / "a.bin")
    header = np.zeros(256, "i4")
    header[:3] = 20240520, 1, 80_001
    (tmp_path / "b.bin").write_bytes(header.tobytes() + tokens[70_000:].tobytes())
    source = source_of(tmp_path, "tokens", dtype, end=7)
    store = pack(source, tmp_path / "s", profile="tokens", workers=2, shards=2)
    got = b"".join(store.payload(i) for i in range(len(store)))
    assert np.array_equal(np.frombuffer(got, dtype), tokens)
    starts = [0, *(np.flatnonzero(tokens == 7) + 1).tolist()]
    assert store.table("documents").tolist() == [s for s in starts if s < len(tokens)]
    assert store.manifest.settings["tokens"] == 150_001


def test_token_files_of_odd_length_are_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"123")
    with pytest.raises(PackError, match="no whole number of uint16: is it cut short"):
        TokenStream([tmp_path / "a.bin"])
    with pytest.raises(PackError, match="looks like a token stream: give --profile tokens"):
        source_of(tmp_path / "a.bin")


def test_unknown_files_are_named(tmp_path):
    with pytest.raises(PackError, match="does not exist"):
        source_of(tmp_path / "no")
    (tmp_path / "a.xyz").write_bytes(b"")
    with pytest.raises(PackError, match="is of no known kind: expected a folder of images"):
        source_of(tmp_path / "a.xyz")
