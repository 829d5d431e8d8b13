"""The compiled steps: shared out among threads, and done without where they cannot be had."""

import copy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from hotlap.common import compiled
from hotlap.optim import LAMB, LARS
from hotlap.optim.kernels.calls import SPLIT, library
from optim.test_layerwise import eager

with_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache in which nothing was compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled.library.cache_clear()
    yield tmp_path / "hotlap" / "kernels"
    compiled.library.cache_clear()


@with_compiler
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", [LARS, LAMB])
def test_large_tensors_are_shared_out_among_threads(kind: type, threads: int) -> None:
    sizes = [(7, 5), (SPLIT + 4099, 1), (3, SPLIT // 2), (SPLIT - 1, 1), (2, 0)]
    ps = [torch.randn(size, dtype=torch.float64) for size in sizes]
    qs = copy.deepcopy(ps)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        ours = kind([p.requires_grad_() for p in ps], lr=0.1, weight_decay=0.1)
        theirs = eager(kind)([q.requires_grad_() for q in qs], lr=0.1, weight_decay=0.1)
        for _ in range(3):
            for p, q in zip(ps, qs, strict=True):
                p.grad = torch.randn_like(p)
                q.grad = p.grad.clone()
            ours.step()
            theirs.step()
    finally:
        torch.set_num_threads(before)
    for p, q in zip(ps, qs, strict=True):
        assert torch.allclose(p, q, rtol=1e-12, atol=1e-14)


@with_compiler
def test_half_a_file_in_the_cache_is_compiled_anew(fresh: Path) -> None:
    assert library() is not None
    (made,) = fresh.iterdir()
    compiled.library.cache_clear()
    made.unlink()  # what is loaded stays what it was
    made.write_bytes(b"half")
    assert library() is not None


@pytest.mark.parametrize("kind", [LARS, LAMB, eager(LARS), eager(LAMB)])
@pytest.mark.parametrize("was", [torch.float32, torch.float64, torch.bfloat16])
def test_a_state_of_another_dtype_is_taken(kind: type, was: torch.dtype) -> None:
    model = torch.nn.Linear(300, 200).to(was)
    optimizer = kind(model.parameters(), lr=0.01)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    for values in state["state"].values():
        values["step"] = values["step"].double()
    for dtype in (torch.float64, torch.float32):
        other = copy.deepcopy(model).to(dtype)
        again = kind(other.parameters(), lr=0.01, master_weights=False)
        again.load_state_dict(copy.deepcopy(state))
        for p in other.parameters():
            p.grad = torch.ones_like(p)
        before = other.weight.detach().clone()
        again.step()
        moved = (before - other.weight).double()
        assert torch.allclose(moved, moved.mean(), rtol=0.5)
        assert all(float(v["step"]) == 2 for v in again.state.values())


@pytest.mark.parametrize("path", [lambda kind: kind, eager])
def test_without_momentum_lars_goes_by_its_rate(path: Callable[[type], type]) -> None:
    p, g = torch.randn(6, 5, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64)
    rate = 0.1 * 0.001 * p.norm() / (g.norm() + 0.2 * p.norm())
    wanted = p - rate * (g + 0.2 * p)
    p.requires_grad_()
    p.grad = g
    path(LARS)([p], lr=0.1, momentum=0.0, weight_decay=0.2).step()
    assert torch.allclose(p, wanted, rtol=1e-12)


def test_a_step_is_seen_by_autograd() -> None:
    p = torch.randn(3, 3, requires_grad=True)
    loss = p.square().sum()
    loss.backward(retain_graph=True)
    LAMB([p]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@with_compiler
def test_they_are_compiled_once_for_a_machine(fresh: Path) -> None:
    assert library() is not None
    (made,) = fresh.iterdir()
    when = made.stat().st_mtime_ns
    compiled.library.cache_clear()
    assert library() is not None
    assert [each.stat().st_mtime_ns for each in fresh.iterdir()] == [when]


@pytest.mark.parametrize(
    ("name", "value"),
    [("CC", "no-such-compiler"), ("CC", "false"), ("CC", 'cc "'), ("HOTLAP_KERNELS", "0")],
)
def test_it_goes_without_them(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert library() is None
    assert not fresh.exists() or not list(fresh.iterdir())
    p = torch.ones(3, 3, requires_grad=True)
    p.grad = torch.ones(3, 3)
    LAMB([p], lr=0.1).step()
    assert (p < 1).all()


def test_a_cache_that_cannot_be_written_to_does_no_harm(
    tmp_path: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert library() is None


@with_compiler
def test_what_others_could_have_written_is_compiled_anew(fresh: Path, tmp_path: Path) -> None:
    assert library() is not None
    (made,) = fresh.iterdir()
    assert not fresh.stat().st_mode & 0o077
    assert not made.stat().st_mode & 0o077
    content, elsewhere = made.read_bytes(), tmp_path / "planted.so"
    elsewhere.write_bytes(b"planted")

    def planted() -> None:
        made.write_bytes(b"planted")
        made.chmod(0o666)

    for plant in (planted, lambda: made.symlink_to(elsewhere)):
        made.unlink()  # what is loaded stays what it was
        plant()
        fresh.chmod(0o777)
        compiled.library.cache_clear()
        assert library() is not None
        assert not made.is_symlink()
        assert made.read_bytes() == content
        assert not fresh.stat().st_mode & 0o077
    assert elsewhere.read_bytes() == b"planted"


@with_compiler
def test_another_users_folder_is_not_loaded_from(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library() is not None
    compiled.library.cache_clear()
    monkeypatch.setattr(compiled.os, "geteuid", lambda: fresh.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="belongs to user .* set XDG_CACHE_HOME"):
        assert library() is None
