import torch

assert torch.autograd.gradcheck(function, inputs)
