"""The order of a step, and steps that are left out."""

from typing import Any

import pytest
import torch
from torch import nn

from hotlap.engine import Stepper


def parts(**options: Any) -> tuple[nn.Linear, Any, Any]:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **options)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


def loss_of(model: nn.Module, factor: float = 1.0) -> torch.Tensor:
    return model(torch.ones(2, 3)).square().mean() * factor


def test_unscale_clip_step_update_zero_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer, scheduler = parts()
    scaler = torch.amp.GradScaler("cpu")
    stepper = Stepper(optimizer, scheduler=scheduler, scaler=scaler, clip=1.0)
    seen: list[str] = []

    def spied(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            return inner(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    spied(scaler, "unscale_")
    spied(scaler, "step")
    spied(scaler, "update")
    spied(optimizer, "zero_grad")
    spied(scheduler, "step")
    stepper.backward(loss_of(model))
    assert stepper.pending
    assert stepper.update()
    assert seen == ["unscale_", "step", "update", "zero_grad", "step"]
    assert not stepper.pending
    assert all(p.grad is None for p in model.parameters())
    assert stepper.norm is not None


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_with_infinities_is_left_out_and_the_scheduler_waits(fused: bool) -> None:
    model, optimizer, scheduler = parts(fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    stepper = Stepper(optimizer, scheduler=scheduler, scaler=scaler)
    before = [p.detach().clone() for p in model.parameters()]
    stepper.backward(loss_of(model, float("inf")))
    assert not stepper.update()
    assert scheduler.last_epoch == 0
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    assert scaler.get_scale() < 2**16
    stepper.backward(loss_of(model))
    assert stepper.update()
    assert scheduler.last_epoch == 1


def test_clipping_is_torchs_own() -> None:
    torch.manual_seed(3)
    model, optimizer, _ = parts()
    stepper = Stepper(optimizer, clip=0.01)
    loss_of(model).backward()
    grads = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    optimizer.zero_grad()
    stepper.backward(loss_of(model))
    seen: list[torch.Tensor] = []
    optimizer.register_step_pre_hook(
        lambda *_: seen.extend(p.grad.clone() for p in model.parameters() if p.grad is not None)
    )
    stepper.update()
    norm = torch.linalg.vector_norm(torch.stack([g.norm() for g in grads]))
    assert stepper.norm is not None
    assert torch.allclose(stepper.norm, norm)
    for mine, plain in zip(seen, grads, strict=True):
        assert torch.allclose(mine, plain * 0.01 / (norm + 1e-6))


def test_a_scheduler_that_wants_a_metric_is_refused() -> None:
    _, optimizer, _ = parts()
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    with pytest.raises(TypeError, match="step it yourself"):
        Stepper(optimizer, scheduler=plateau)  # type: ignore[arg-type]
