import torch

ema = torch.optim.swa_utils.AveragedModel(model)
ema.update_parameters(model)
torch._foreach_lerp_(averages, parameters, 0.001)
for t, p in zip(target.parameters(), model.parameters()):
    t.data.copy_(p.data)
for t, p in zip(target.parameters(), model.parameters()):
    t.requires_grad = p.requires_grad
for x, y in zip(first, second):
    x.mul_(0.9).add_(y)
