import numpy as np
import pytest
import torch

from hotlap.data import Loader, TokenWindows
from hotlap.data.errors import StoreError
from hotlap.data.pack import pack
from hotlap.data.pack.sources import source_of

END = 9


def packed(tmp_path, count=70_000, dtype="uint16", end=END):
    tokens = np.random.default_rng(count).integers(0, 60, count).astype(dtype)
    tokens.tofile(tmp_path / "t.bin")
    source = source_of(tmp_path / "t.bin", "tokens", dtype, end)
    return tokens.astype("i8"), pack(source, tmp_path / "s", profile="tokens")


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_windows_cover_the_stream(tmp_path, dtype):
    tokens, store = packed(tmp_path, dtype=dtype)
    windows = TokenWindows(store, 700)
    assert len(windows) == 99
    inputs, targets = (torch.cat(c) for c in zip(*list(Loader(windows, 8)), strict=True))
    assert inputs.dtype is torch.int64
    assert np.array_equal(inputs.flatten().numpy(), tokens[: 99 * 700])
    assert np.array_equal(targets.flatten().numpy(), tokens[1 : 99 * 700 + 1])


def test_random_windows_are_pieces_of_the_stream_and_repeat(tmp_path):
    tokens, store = packed(tmp_path)
    windows = TokenWindows(store, 50, random=True)
    text = tokens.astype("u1").tobytes()
    epochs = [[], []]
    loader = Loader(windows, 64, shuffle=True, seed=3)
    for epoch in epochs:
        for inputs, targets in loader:
            for row, after in zip(inputs.numpy(), targets.numpy(), strict=True):
                whole = np.append(row, after[-1]).astype("u1").tobytes()
                assert whole in text
                epoch.append(whole)
    assert len(set(epochs[0])) > 1300
    assert epochs[0] != epochs[1]
    again = Loader(windows, 64, shuffle=True, seed=3, workers=1)
    first = next(iter(again))[0][0].numpy().astype("u1").tobytes()
    assert epochs[0][0].startswith(first)


def test_going_on_in_other_batches_gives_the_rest(tmp_path):
    _, store = packed(tmp_path)
    windows = TokenWindows(store, 100)
    whole = torch.cat([i for i, _ in Loader(windows, 16, shuffle=True)])
    loader = Loader(windows, 16, shuffle=True)
    for number, _ in enumerate(loader):
        if number == 6:
            break
    later = Loader(windows, 9, shuffle=True, workers=1)
    later.load_state_dict(loader.state_dict())
    assert torch.equal(torch.cat([i for i, _ in later]), whole[7 * 16 :])
    with pytest.raises(ValueError, match="the saved state has"):
        Loader(TokenWindows(store, 50), 9, shuffle=True).load_state_dict(loader.state_dict())


def test_documents_are_told_apart(tmp_path):
    tokens, store = packed(tmp_path)
    for batch in Loader(TokenWindows(store, 128, documents=True), 4, shuffle=True, workers=0):
        for row in range(len(batch["inputs"])):
            inputs = batch["inputs"][row].tolist()
            document, positions = batch["document"][row].tolist(), batch["positions"][row].tolist()
            assert document[0] == 0
            for i in range(1, 128):
                new = inputs[i - 1] == END
                assert document[i] == document[i - 1] + new
                assert positions[i] == (0 if new else positions[i - 1] + 1)
                target = batch["targets"][row, i - 1].item()
                assert target == (-100 if new else inputs[i])
    assert tokens.max() < 60


def test_what_does_not_fit_is_named(tmp_path):
    _, store = packed(tmp_path, 100, end=None)
    with pytest.raises(StoreError, match=r"has 100 tokens: a window of 100 needs 101"):
        TokenWindows(store, 100)
    assert len(TokenWindows(store, 99)) == 1
    with pytest.raises(StoreError, match="pack it with --end TOKEN"):
        TokenWindows(store, 10, documents=True)
    with pytest.raises(ValueError, match=r"holds tokens: Loader\(TokenWindows"):
        Loader(store)


def test_an_altered_block_is_reported(tmp_path):
    _, store = packed(tmp_path)
    path = store.path / "shard-00000.bin"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"sample 0 \(tokens 0 to 65536\) .* was altered"):
        list(Loader(TokenWindows(store.path, 100), 4))
