import torch
from torch import distributed


def finish(params, optimizer):
    for name, one in params:
        distributed.all_reduce(one.grad, op=distributed.ReduceOp.AVG)  # found: gradients_reduced_by_hand
    torch.nn.utils.clip_grad_norm_([one for _, one in params], 1.0)
    optimizer.step()
