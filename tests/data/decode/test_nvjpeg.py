"""How torchvision is called; what it does is tested where there is a GPU."""

from types import SimpleNamespace

import pytest
import torch

from hotlap.data.decode import nvjpeg
from hotlap.data.errors import MissingPackageError

CUDA = torch.device("cuda", 0)


@pytest.fixture
def with_cuda(monkeypatch):
    """A CUDA device as far as this module looks; returns what happened in turn."""
    happened = []
    stream = SimpleNamespace(synchronize=lambda: happened.append("synchronize"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.current_stream", lambda device: stream)
    return happened


def test_the_list_is_decoded_after_the_streams_kernels(with_cuda, monkeypatch):
    def decode_jpeg(jpegs, mode, device):
        with_cuda.append((len(jpegs), mode, device))
        return jpegs

    io = SimpleNamespace(decode_jpeg=decode_jpeg, ImageReadMode=SimpleNamespace(RGB="rgb"))
    monkeypatch.setattr(nvjpeg, "import_module", {"torchvision.io": io}.get)
    jpegs = [torch.zeros(3, dtype=torch.uint8)] * 2
    assert nvjpeg.nvjpeg(CUDA)(jpegs, CUDA) is jpegs
    assert with_cuda == ["synchronize", (2, "rgb", CUDA)]


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'torchvision'"),
        OSError("libnvjpeg.so.12: cannot open shared object file"),
        RuntimeError("operator torchvision::nms does not exist"),
    ],
)
def test_a_torchvision_that_does_not_load_is_named(with_cuda, monkeypatch, error):
    def fails(name):
        raise error

    monkeypatch.setattr(nvjpeg, "import_module", fails)
    with pytest.raises(MissingPackageError) as raised:
        nvjpeg.nvjpeg(CUDA)
    assert f"torchvision, which does not load ({error}): install the one" in str(raised.value)
    assert "leave `decoder` out, and the CPU decodes" in str(raised.value)
