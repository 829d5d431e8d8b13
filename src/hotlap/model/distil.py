"""Distillation: a small model learns from a large one's outputs, hidden states and attention."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction, FunctionCtx
from torch.nn import functional

from hotlap.common.extras import Array, need
from hotlap.data.store import Store


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 2.0) -> Tensor:
    """T^2 KL(teacher || student) of softened outputs (Hinton et al. 2015), mean over positions.

    Args:
        student: logits (..., classes).
        teacher: logits of the same shape; no gradient flows into them.
        temperature: T; both are divided by it. T^2 keeps the gradient's size.
    """
    classes = student.shape[-1]
    log_student = functional.log_softmax(student.float() / temperature, -1).reshape(-1, classes)
    log_teacher = functional.log_softmax(teacher.detach().float() / temperature, -1)
    log_teacher = log_teacher.reshape(-1, classes)
    divergence = functional.kl_div(log_student, log_teacher, reduction="batchmean", log_target=True)
    return divergence * temperature**2


def hidden_state_loss(
    student: Tensor, teacher: Tensor, projection: nn.Module | None = None
) -> Tensor:
    """Mean squared error of hidden states (TinyBERT, Jiao et al. 2020).

    Args:
        student: hidden states (..., width of the student).
        teacher: (..., width of the teacher), detached.
        projection: a module from the one width to the other, trained along; needed if they differ.
    """
    moved = student if projection is None else projection(student)
    if moved.shape != teacher.shape:
        raise ValueError(
            f"hidden states of shapes {tuple(moved.shape)} and {tuple(teacher.shape)}: "
            "pass projection=nn.Linear(student_width, teacher_width)"
        )
    return functional.mse_loss(moved, teacher.detach())


def attention_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher || student) of attention probabilities (MiniLM, Wang et al. 2020).

    Args:
        student: probabilities (batch, heads, queries, keys).
        teacher: the same, detached; where the numbers of heads differ both are averaged over heads.
    """
    teacher = teacher.detach()
    if student.shape[1] != teacher.shape[1]:
        student, teacher = student.mean(1), teacher.mean(1)
    least = torch.finfo(student.dtype).tiny
    ratio = teacher.clamp_min(least).log() - student.clamp_min(least).log()
    return (teacher * ratio).sum(-1).mean()


@contextmanager
def distilled(
    student: nn.Module, teacher: nn.Module, *, temperature: float = 2.0, weight: float = 1.0
) -> Iterator[None]:
    """Within it, training the student by any loop also pulls its logits towards the teacher's.

    The loop stays as it is: each forward pass of the student in training mode also runs the
    teacher, and the gradient of `weight * distillation_loss` joins that of the loop's own loss.
    The logits are the first tensor of what the student returns; if it returns its loss as well (a
    scalar), the distillation loss is added to that. The loss must not be scaled by a GradScaler.
    """
    teacher = teacher.eval()

    def hook(
        module: nn.Module, args: tuple[object, ...], keywords: dict[str, object], result: object
    ) -> object:
        if not (module.training and torch.is_grad_enabled()):
            return result
        with torch.no_grad():
            target = _logits(teacher(*args, **keywords))
        logits = _logits(result)
        return _replaced(result, logits, target, temperature, weight)

    handle = student.register_forward_hook(hook, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


class _Pulled(torch.autograd.Function):
    """Identity on the logits; adds the gradient of the distillation loss on the way back."""

    @staticmethod
    def forward(ctx: FunctionCtx, logits: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return logits.view_as(logits)

    @staticmethod
    def backward(ctx: BackwardCFunction, *grads: Tensor) -> object:
        (gradient,) = ctx.saved_tensors
        return grads[0] + gradient.to(grads[0].dtype), None


def _replaced(
    result: Any, logits: Tensor, target: Tensor, temperature: float, weight: float
) -> object:
    if isinstance(result, Tensor):
        leaf = logits.detach().requires_grad_()
        loss = weight * distillation_loss(leaf, target, temperature)
        (gradient,) = torch.autograd.grad(loss, leaf)
        return _Pulled.apply(logits, gradient)  # type: ignore[no-untyped-call]
    entries = result.items() if isinstance(result, dict) else enumerate(result)
    place = next(
        (key for key, t in entries if isinstance(t, Tensor) and t.dim() == 0 and t.requires_grad),
        None,
    )
    if place is None:
        raise ValueError("the student returns neither logits alone nor its logits and its loss")
    pulled = result[place] + weight * distillation_loss(logits, target, temperature)
    if isinstance(result, tuple) and not hasattr(result, "_fields"):
        return (*result[:place], pulled, *result[place + 1 :])
    result[place] = pulled
    return result


def _logits(result: Any) -> Tensor:
    entries = result.values() if isinstance(result, dict) else result
    if isinstance(result, Tensor):
        return result
    found = next((t for t in entries if isinstance(t, Tensor) and t.dim() > 1), None)
    if found is None:
        raise ValueError("the model returns no tensor of logits (two dimensions or more)")
    return found


def cache_teacher(
    teacher: nn.Module, samples: Sequence[object], folder: str | Path, *, batch_size: int = 64
) -> Store:
    """Run the teacher once over all samples and keep its logits in a store of hotlap.data.

    `store.sample(index)["data"]` is then the teacher's output for sample `index`, so an epoch of
    distillation costs no forward pass of the teacher. Do not use it with random augmentation.

    Args:
        teacher: returns logits, one row for each sample of the batch.
        samples: a map-style dataset; of a tuple its first entry is the input.
        folder: where the store is written; must not exist.
        batch_size: samples in one forward pass.
    """
    from hotlap.data.pack import pack
    from hotlap.data.pack.sources import Arrays

    numpy = need("numpy")
    teacher = teacher.eval()
    device = next((p.device for p in teacher.parameters()), torch.device("cpu"))
    kept: Array | None = None
    with tempfile.TemporaryDirectory() as room, torch.no_grad():
        for start in range(0, len(samples), batch_size):
            chosen = [samples[i] for i in range(start, min(start + batch_size, len(samples)))]
            inputs = [entry[0] if isinstance(entry, tuple | list) else entry for entry in chosen]
            logits = _logits(teacher(torch.stack([torch.as_tensor(x) for x in inputs]).to(device)))
            rows = logits.float().cpu().numpy()
            if kept is None:
                shape = (len(samples), *rows.shape[1:])
                file = str(Path(room) / "logits.npy")
                kept = numpy.lib.format.open_memmap(file, mode="w+", dtype=rows.dtype, shape=shape)
            kept[start : start + len(rows)] = rows
        if kept is None:
            raise ValueError("there are no samples")
        return pack(Arrays({"logits": kept}), folder, profile="raw", workers=1)
