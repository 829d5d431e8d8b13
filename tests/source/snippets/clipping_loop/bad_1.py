import torch

for p in model.parameters():  # found: clipping_loop
    p.grad.data.clamp_(-1, 1)
total = 0.0
for name, param in model.named_parameters():  # found: clipping_loop
    if param.grad is not None:
        total += param.grad.detach().norm(2) ** 2
coef = 1.0 / (total**0.5 + 1e-6)
for p in model.parameters():  # found: clipping_loop
    p.grad *= coef
