import torch

# An optimizer for scripts to which it does not matter which one it is: the first one of torch's
# imports the compiler, which takes as long as all the rest of torch.
for _method in (torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.zero_grad):
    _plain = getattr(_method, "__wrapped__", _method)
    setattr(_plain, "__dynamo_disable", _plain)


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr, momentum=0.0))  # noqa: C408  for str.format

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(group["lr"] * p.grad)
