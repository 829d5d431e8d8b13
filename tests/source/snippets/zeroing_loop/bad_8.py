import torch

for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    for p in model.parameters():  # found: zeroing_loop
        if p.grad is not None:
            p.grad.data.zero_()
    for w in [weights, bias]:  # found: zeroing_loop
        w.grad.zero_()
    for group in optimizer.param_groups:
        for p in group["params"]:  # found: zeroing_loop
            p.grad.detach_().zero_()
