import torch


class Mine(torch.optim.Optimizer):
    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none=set_to_none)


optimizer.zero_grad()
optimizer.zero_grad(True)
optimizer.zero_grad(set_to_none=args.set_to_none)
