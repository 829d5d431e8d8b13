"""The loss of each step, in whatever way a program computes its gradients."""

import math
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

from hotlap.seam.losses import Losses
from hotlap.seam.steps import bare_step_hooks
from hotlap.seam.unused_gradients import noting_unused

STEPS = 4


def backward(loss, parameters):
    loss.backward()


def of_a_function(loss, parameters):
    torch.autograd.backward(loss)


def by_keyword(loss, parameters):
    torch.autograd.backward(tensors=[loss])


def by_hand(loss, parameters):
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient


def scaled(loss, parameters):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scaler.scale(loss).backward()
    for parameter in parameters:
        parameter.grad /= 1024.0


def with_penalty(loss, parameters):
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    penalty = 0.0 * sum(gradient.square().sum() for gradient in gradients)
    (loss + penalty).backward()


def training(compute, forward=lambda model, x: model(x)):
    """The losses that a training saw itself, and those that were recorded."""
    torch.manual_seed(0)
    model, losses, seen = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)), Losses(), []
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    with losses.recording(lambda: None), bare_step_hooks(None, lambda *_: losses.step()):
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = forward(model, torch.randn(4, 3)).square().mean()
            compute(loss, parameters)
            optimizer.step()
            seen.append(loss.item())
    return seen, losses.take()


@pytest.mark.parametrize(
    "compute", [backward, of_a_function, by_keyword, by_hand, scaled, with_penalty]
)
def test_a_loss_is_what_gradients_are_computed_of(compute):
    seen, recorded = training(compute)
    assert recorded == pytest.approx(seen, rel=1e-6)


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_computes_again_is_no_loss(reentrant):
    def forward(model, x):
        return checkpoint(model, x.requires_grad_(), use_reentrant=reentrant)

    seen, recorded = training(backward, forward)
    assert recorded == pytest.approx(seen, rel=1e-6)


def test_the_loss_of_a_function_that_torch_func_derives():
    def steps():
        torch.manual_seed(0)
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for _ in range(STEPS):
            x = torch.randn(3)
            gradients, loss = torch.func.grad_and_value(lambda w, x=x: (w * x).square().sum())(
                weight.detach()
            )
            weight.grad = gradients
            optimizer.step()
            yield loss.item()

    losses = Losses()
    with losses.recording(lambda: None), bare_step_hooks(None, lambda *_: losses.step()):
        seen = list(steps())
    assert losses.take() == pytest.approx(seen, rel=1e-6)


def test_a_step_without_a_loss_has_none():
    def none(loss, parameters):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)

    assert training(none)[1] == [None] * STEPS


def test_two_threads_that_train_leave_no_loss_out():
    losses = Losses()

    def train():
        training_in_a_thread = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(training_in_a_thread.parameters(), lr=0.1)
        for _ in range(20):
            training_in_a_thread(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()

    with losses.recording(lambda: None), bare_step_hooks(None, lambda *_: losses.step()):
        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    recorded = losses.take()
    assert len(recorded) == 40
    assert not any(loss is not None and math.isnan(loss) for loss in recorded)


def test_a_compiled_gradient_records_what_it_computes():
    @torch.compile(backend="eager")
    def loss_of(weight, x):
        return (weight * x).square().sum()

    losses = Losses()
    weight = nn.Parameter(torch.ones(3))
    with losses.recording(lambda: None):
        loss = loss_of(weight, torch.arange(3.0))
        loss.backward()
        losses.step()
    assert losses.take() == [5.0]


def of_an_iterator(loss, parameters):
    torch.autograd.backward(part for part in (loss,))


def by_an_iterator(loss, parameters):
    gradients = torch.autograd.grad((part for part in (loss,)), iter(parameters))
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient


@pytest.mark.parametrize("compute", [of_an_iterator, by_an_iterator])
def test_an_iterator_of_losses_is_not_used_up(compute):
    seen, recorded = training(compute)
    plain, _ = training(backward)
    assert seen == plain
    assert recorded == pytest.approx(seen, rel=1e-6)


def test_an_iterator_of_losses_is_not_used_up_by_the_probe():
    with noting_unused(lambda: None):
        assert training(of_an_iterator)[0] == training(backward)[0]


def of_an_edge(loss, parameters):
    torch.autograd.backward(get_gradient_edge(loss), torch.ones_like(loss))


def after_another(loss, parameters):
    meta = torch.ones((), device="meta", requires_grad=True)
    (2 * meta).backward()
    loss.backward()


def test_what_has_no_value_is_no_loss():
    assert training(of_an_edge)[1] == [None] * STEPS
    seen, recorded = training(after_another)
    assert recorded == pytest.approx(seen, rel=1e-6)


def test_a_loss_that_is_written_to_is_recorded_as_it_was():
    def zeroed(loss, parameters):
        loss.backward()
        values.append(loss.item())
        loss.data.zero_()

    values = []
    assert training(zeroed)[1] == pytest.approx(values, rel=1e-6)


def test_a_loss_does_not_keep_in_memory_what_it_is_a_part_of():
    losses, weight = Losses(), nn.Parameter(torch.ones(3))
    with losses.recording(lambda: None):
        whole = weight * torch.ones(1000, 3)
        storage = weakref.ref(whole.untyped_storage())
        whole[0, 0].backward()
        del whole
        assert storage() is None
