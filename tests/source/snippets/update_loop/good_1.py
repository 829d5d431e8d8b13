import torch


class Mine(torch.optim.Optimizer):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad, alpha=-group["lr"])


for p in model.parameters():
    p.data.add_(torch.randn_like(p), alpha=0.01)
for p in model.parameters():
    p.grad.add_(p.data, alpha=0.01)
for p, g in zip(model.parameters(), grads):
    total += (p * g).sum()
