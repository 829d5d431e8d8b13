import numpy as np
import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401

DTYPES = ["bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"]


def shares(tensor, array):
    return tensor.data_ptr() == array.__array_interface__["data"][0]


class Holder:
    def __init__(self):
        self.buffer = np.arange(6.0)


holder = Holder()


def temporary():
    return torch.tensor(np.arange(6.0) * 2)


def last_use():
    array = np.arange(6.0)
    pointer = array.__array_interface__["data"][0]
    return torch.tensor(array, dtype=torch.float64).unsqueeze(0), pointer


def used_again():
    array = np.arange(6.0)
    made = torch.tensor(array)
    array[:] = 0
    return made


def reused_in_a_loop():
    array, out = np.zeros(3), []
    for i in range(3):
        array[:] = i
        out.append(torch.tensor(array))
    return torch.cat(out)


def two_names():
    array = np.arange(6.0)
    other = array
    made = torch.tensor(array)
    other[:] = 0
    return made


def captured():
    array = np.arange(6.0)

    def later():
        array[:] = 0

    made = torch.tensor(array)
    later()
    return made


def attribute():
    made = torch.tensor(holder.buffer)
    holder.buffer += 1
    return made


def view():
    data = np.arange(6.0)
    made = torch.tensor(data[1:4])
    made += 1
    return torch.from_numpy(data)


def parameter(array):
    return torch.tensor(array)


def kept_by_the_caller():
    mine = np.arange(6.0)
    made = parameter(mine)
    mine[:] = 0
    return made


def generator():
    def go():
        array = np.arange(6.0)
        yield torch.tensor(array)
        yield array

    steps = go()
    made = next(steps)
    made += 1
    return torch.from_numpy(next(steps))


def in_a_list():
    arrays = [np.arange(3.0), np.arange(3.0)]
    made = torch.stack(list(map(torch.tensor, arrays)))
    arrays[0][:] = 9
    return made


ALONE = [
    used_again, reused_in_a_loop, two_names, captured, attribute, view, kept_by_the_caller,
    generator, in_a_list,
]  # fmt: skip


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.__name__)
def test_arrays_that_live_on_are_copied(case):
    holder.buffer = np.arange(6.0)
    plain = case()
    holder.buffer = np.arange(6.0)
    with on("no_copy_from_numpy") as seams:
        assert torch.equal(case(), plain)
    assert not seams.holds


def test_the_memory_order_is_kept():
    def make():
        array = (np.arange(6.0).reshape(2, 3).T / 3).astype(np.float32)
        return torch.tensor(array)

    plain = make()
    with on("no_copy_from_numpy") as seams:
        ours = make()
    assert seams.holds
    assert ours.stride() == plain.stride()
    assert torch.equal(ours, plain)


def test_arrays_that_die_are_shared():
    plain = temporary()
    with on("no_copy_from_numpy") as seams:
        assert torch.equal(temporary(), plain)
        assert seams.holds.pop("no_copy_from_numpy")
        made, pointer = last_use()
        assert made.data_ptr() == pointer
        assert seams.holds
    made, pointer = last_use()
    assert made.data_ptr() != pointer


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("asked", [None, torch.float32, torch.float64], ids=str)
def test_values_dtype_and_shape_are_those_of_torch_tensor(dtype, asked):
    if dtype == "complex64" and asked is not None:
        pytest.skip("complex into real warns")

    def cases():
        base = np.arange(12).reshape(3, 4) % 5
        yield torch.tensor(base.astype(dtype), dtype=asked)
        yield torch.tensor(base.astype(dtype).T, dtype=asked)
        yield torch.tensor(base.astype(dtype)[::2], dtype=asked)
        yield torch.tensor([row.astype(dtype) for row in base], dtype=asked)
        yield torch.tensor(tuple(row.astype(dtype) for row in base), dtype=asked)
        yield torch.tensor(np.zeros(0, dtype), dtype=asked)
        yield torch.tensor(base.astype(dtype), dtype=torch.int64)
        yield torch.tensor(np.array(3).astype(dtype), dtype=asked)

    plain = list(cases())
    with on("no_copy_from_numpy") as seams:
        ours = list(cases())
    assert seams.holds
    for was, now in zip(plain, ours, strict=True):
        assert was.dtype is now.dtype
        assert was.shape == now.shape
        assert torch.equal(was, now)


@pytest.mark.parametrize(
    "data",
    [
        3.5,
        [1, 2],
        [1.0, np.float64(2)],
        [[1.0], [2.0]],
        [np.float32(1), np.float32(2)],
        [np.zeros(2), np.zeros(2, np.float32)],
        [[np.zeros(2)], [np.ones(2)]],
        (),
    ],
    ids=repr,
)
def test_other_data_is_left_alone(data):
    plain = torch.tensor(data)
    with on("no_copy_from_numpy") as seams:
        now = torch.tensor(data)
    assert now.dtype is plain.dtype
    assert torch.equal(now, plain)
    assert not seams.holds


def test_gradients_and_devices():
    with on("no_copy_from_numpy") as seams:
        made = torch.tensor(np.ones(2), requires_grad=True)  # outside of the rewritten assert
        assert made.requires_grad
        assert seams.holds.pop("no_copy_from_numpy")
        assert torch.tensor(np.ones(2), device="meta").is_meta
        with torch.device("meta"):
            assert torch.tensor(np.ones(2)).is_meta
        assert not seams.holds
        assert torch.tensor(np.ones(2), device="cpu").is_cpu
        with pytest.raises(ValueError, match=r"shape|length|size"):
            torch.tensor([np.ones(2), np.ones(3)])


def test_copies_on_the_cpu_are_left_alone():
    x = torch.ones(2)
    with on("async_copy") as seams:
        assert x.to("cpu") is x
        assert x.to(torch.float64).dtype is torch.float64
        assert x.to(x) is x
        assert x.to(device="cpu", dtype=torch.float16).dtype is torch.float16
    assert not seams.holds


gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("copy", [lambda x: x.to("cuda"), lambda x: x.cuda()])
class TestCopies:
    pytestmark = gpu

    def test_only_pinned_memory_is_copied_without_waiting(self, pinned, copy):
        x = torch.arange(10.0)
        x = x.pin_memory() if pinned else x
        with on("async_copy") as seams:
            assert copy(x).sum().item() == 45.0
        assert bool(seams.holds) == pinned


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_batches_come_moved():
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.arange(20.0), torch.arange(20))
    with on("device_prefetch", "pinned_memory") as seams:
        loader = DataLoader(data, batch_size=4)
        for _ in range(2):
            for i, (x, y) in enumerate(loader):
                assert y.is_cpu  # the script leaves it there
                if i:
                    assert x.is_cuda
                assert x.cuda().sum().item() == sum(range(4 * i, 4 * i + 4))
    assert seams.holds["device_prefetch"]


def test_prefetching_leaves_a_cpu_script_alone():
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4)
    plain = [[b[0].tolist() for b in loader] for _ in range(2)]
    with on("device_prefetch") as seams:
        it = iter(loader)
        assert len(it) == 2
        assert next(it)[0].to("cpu").tolist() == plain[0][0]
        del it
        assert [[b[0].tolist() for b in loader] for _ in range(2)] == plain
    assert not seams.holds
