import torch
import torch.distributed as dist


def average_gradients(model):
    world = dist.get_world_size()
    for param in model.parameters():
        if param.grad is not None:
            dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)  # found: gradients_reduced_by_hand
            param.grad.data /= world


def train(model, loader, optimizer):
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        average_gradients(model)
        optimizer.step()
