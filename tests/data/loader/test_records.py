"""Fields of variable length through the loader."""

import json

import numpy as np
import torch

from data.images import encoded, photo
from hotlap.data import Loader
from hotlap.data.pack import pack
from hotlap.data.transforms import Resize

WORDS = [f"{i} " + "w" * i for i in range(10)]


def text_store(root):
    rows = [{"text": WORDS[i], "n": i, "half": i / 2} for i in range(10)]
    (root / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return pack(root / "x.jsonl", root / "s", workers=1)


def test_a_text_file_is_read_as_dictionaries(tmp_path):
    store = text_store(tmp_path)
    for workers in (0, 2):
        got = list(Loader(store, 4, shuffle=True, seed=3, workers=workers))
        order = [n for batch in got for n in batch["n"].tolist()]
        assert sorted(order) == list(range(10))
        assert [text for batch in got for text in batch["text"]] == [WORDS[i] for i in order]
        assert torch.cat([batch["half"] for batch in got]).tolist() == [i / 2 for i in order]


def test_ones_own_collate_gets_the_samples(tmp_path):
    def padded(samples):
        lengths = torch.tensor([len(sample["text"]) for sample in samples])
        return torch.zeros(len(samples), int(lengths.max())), lengths

    batches = list(Loader(text_store(tmp_path), 4, collate_fn=padded, workers=1))
    assert [lengths.tolist() for _, lengths in batches] == [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11]]
    assert set(next(iter(Loader(str(tmp_path / "s"), 10, fields=["n"])))) == {"n"}


def test_captions_come_beside_images(tmp_path):
    for i in range(6):
        (tmp_path / f"{i}.jpg").write_bytes(encoded(photo(i, 20, 24)))
        (tmp_path / f"{i}.txt").write_text(WORDS[i])
    store = pack(tmp_path, tmp_path.with_name("captions"), workers=1)
    for workers in (0, 1):
        how = {"fields": ["txt"], "transform": Resize((8, 8)), "workers": workers}
        for number, (images, captions) in enumerate(Loader(store, 2, **how)):
            assert images.shape == (2, 3, 8, 8)
            assert captions == WORDS[number * 2 : number * 2 + 2]


def test_arrays_of_several_shapes_are_lists_of_tensors(tmp_path):
    class Points:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return {"points": np.arange(index + 1), "label": index}

    (batch,) = Loader(pack(Points(), tmp_path / "s", workers=1), 4)
    assert [points.tolist() for points in batch["points"]] == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert batch["label"].tolist() == [0, 1, 2, 3]
