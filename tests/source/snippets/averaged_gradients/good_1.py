import torch
from torch.func import grad, vmap


def noisy_step(params, x, y, clip):
    grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    norms = torch.cat([g.flatten(1) for g in grads.values()], 1).norm(dim=1)
    scale = (clip / norms).clamp(max=1)
    return {k: torch.einsum("b,b...->...", scale, g) for k, g in grads.items()}


def variance(params, x, y):
    grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    return {k: (g.mean(0), g.var(0)) for k, g in grads.items()}


def meta_step(params, tasks):
    grads = vmap(grad(adapted_loss), in_dims=(None, 0))(params, tasks)
    kept = [g for g in grads.values()]
    return kept


def inner(params, task):
    grads = grad(loss)(params, task)
    return {k: v - 0.1 * grads[k] for k, v in params.items()}


def outer_loss(params, task):
    return loss(inner(params, task), task)


def maml_step(params, tasks):
    grads = vmap(grad(outer_loss), in_dims=(None, 0))(params, tasks)
    return {k: g.mean(0) for k, g in grads.items()}


def mean_step(params, x, y):
    return grad(lambda p: vmap(loss, in_dims=(None, 0, 0))(p, x, y).mean())(params)
