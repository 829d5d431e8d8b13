import torch

optimizer.zero_grad()
for p in model.parameters():
    p.grad = None
for p in model.parameters():
    p.data.zero_()
x.grad.zero_()
