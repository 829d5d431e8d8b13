import torch
from torch.func import functional_call, grad

for x, y in loader:
    grads = grad(loss_of)(params, x, y)
    for name, g in grads.items():  # found: update_loop
        params[name] = params[name] - 0.1 * g
for x, y in loader:
    grads = grad(loss_of)(params, x, y)
    params = {k: params[k] - lr * grads[k] for k in params}  # found: update_loop
for x, y in loader:
    slopes = torch.autograd.grad(loss_of(weights, x, y), weights)
    weights = [w - lr * g for w, g in zip(weights, slopes)]  # found: update_loop
for x, y in loader:
    gradients = torch.autograd.grad(loss_of(weights, x, y), weights)
    weights = [w - alpha * d for w, d in zip(weights, gradients)]  # found: update_loop
for x, y in loader:
    grads = grad(loss_of)(params, x, y)
    for k in params:  # found: update_loop
        params[k] -= lr * grads[k]
