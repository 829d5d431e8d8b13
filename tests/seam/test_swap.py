"""A `Swap` move: another function in the place of torch's, at run time and in source."""

import pytest
import torch
from applying import on, torch_is_left_as_it_was  # noqa: F401
from patching import patched

RECORD = '''
"""A technique of a test."""

from hotlap.core.move import Swap
from hotlap.core.technique import Numerics
from hotlap.core.technique import Group, How, Technique

technique = Technique(
    title="A swapped function", group=Group.COMPUTE, numerics=Numerics.ROUNDING, how=(How.MOVE,),
    why="why", changes="nothing", avoid="never",
    moves=(Swap(("torch.nn.functional.gelu", "torch.nn.ReLU.forward"), "swap_helper:twice",
                requires={requires!r}, extra="nothing-like-it",
                written="hotlap.kernels.gelu"),),
)
'''

HELPER = """
def twice(original):
    def substitute(*args, **kwargs):
        if args[-1].ndim != 2:
            return NotImplemented
        return 2 * original(*args, **kwargs)
    return substitute
"""


@pytest.fixture
def swapped(tmp_path, monkeypatch):
    def write(requires=""):
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "swap_helper.py").write_text(HELPER)
        (tmp_path / "records").mkdir()
        (tmp_path / "records" / "swapped.py").write_text(RECORD.format(requires=requires))
        monkeypatch.syspath_prepend(str(tmp_path / "lib"))
        monkeypatch.setenv("HOTLAP_TECHNIQUES", str(tmp_path / "records"))

    return write


def test_a_function_and_a_method_are_swapped_and_put_back(swapped):
    swapped()
    x = torch.randn(3, 4)
    plain, relu = torch.nn.functional.gelu(x), torch.nn.ReLU()
    with on("swapped") as seams:
        assert torch.equal(torch.nn.functional.gelu(x), 2 * plain)
        assert torch.equal(relu(x), 2 * x.clamp(min=0))
        assert seams.holds["swapped"]
    assert torch.equal(torch.nn.functional.gelu(x), plain)


def test_what_the_substitute_does_not_serve_goes_to_the_original(swapped):
    swapped()
    x = torch.randn(3)
    plain = torch.nn.functional.gelu(x)
    with on("swapped") as seams:
        assert torch.equal(torch.nn.functional.gelu(x), plain)
        assert not seams.holds


def test_a_compiled_function_is_swapped_without_a_graph_break(swapped):
    swapped()
    x = torch.randn(3, 4)
    with on("swapped") as seams:
        compiled = torch.compile(
            lambda t: torch.nn.functional.gelu(t) + 1, backend="eager", fullgraph=True
        )
        found = compiled(x)
        assert seams.holds["swapped"]
    assert torch.equal(found, 2 * torch.nn.functional.gelu(x) + 1)


def test_a_library_that_is_not_installed_is_named_with_its_install_line(swapped):
    swapped(requires="nothing_like_it")
    x = torch.randn(3, 4)
    plain = torch.nn.functional.gelu(x)
    with on("swapped") as seams:
        assert torch.equal(torch.nn.functional.gelu(x), plain)
        assert "pip install nothing-like-it" in seams.inerts["swapped"]


def test_the_public_function_is_written_into_source(swapped):
    swapped()
    text = (
        "import torch.nn.functional as F\n\n\n"
        "def forward(x):\n    return F.gelu(x, approximate='tanh')\n"
    )
    written, _ = patched(text, "swapped")
    assert "gelu(x, approximate='tanh')" in written
    assert "F.gelu" not in written
    assert "from hotlap.kernels import gelu" in written
