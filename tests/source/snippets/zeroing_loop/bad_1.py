import torch

for p in model.parameters():  # found: zeroing_loop
    if p.grad is not None:
        p.grad.zero_()
for p in model.parameters():  # found: zeroing_loop
    p.grad.data.fill_(0)
