import torch
from torch.func import functional_call, grad_and_value, vmap

per_sample = vmap(grad_and_value(loss_fn), in_dims=(None, 0, 0))
for step in range(1000):
    detached = {k: v.detach() for k, v in params.items()}
    grads, losses = per_sample(detached, x, y)  # found: averaged_gradients
    for k, p in params.items():
        p.grad = grads[k].mean(0)
    opt.step()
    running += losses.mean()
