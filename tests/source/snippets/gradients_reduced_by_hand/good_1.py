import torch
import torch.distributed as dist


def tied(model, group):
    for param in model.parameters():
        dist.all_reduce(param.grad, group=group)


def metrics(meters):
    for meter in meters:
        dist.all_reduce(meter.total)


def overlapped(model):
    work = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
    for one in work:
        one.wait()


def in_one(model):
    flat = torch._utils._flatten_dense_tensors([p.grad for p in model.parameters()])
    dist.all_reduce(flat)
    return flat
