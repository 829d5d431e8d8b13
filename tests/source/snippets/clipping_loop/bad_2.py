import torch


def clip(optimizer, limit):
    for group in optimizer.param_groups:
        for p in group["params"]:  # found: clipping_loop
            if p.grad is not None:
                torch.clamp(p.grad, -limit, limit, out=p.grad)


parameters = [p for p in model.parameters() if p.requires_grad]
for p in parameters:  # found: clipping_loop
    norm = torch.norm(p.grad)
    p.grad.mul_(max_norm / norm)
