import numpy as np
import torch
from torch import nn
from torch.autograd import Variable


class Transform(nn.Module):
    def forward(self, x):
        identity = Variable(torch.from_numpy(np.eye(3).astype(np.float32))).view(1, 9).repeat(8, 1)
        if x.is_cuda:
            identity = identity.cuda()  # found: moved_after_creation
        return x + identity


def penalty(transform):
    eye = torch.eye(3)[None, :, :]
    if transform.is_cuda:
        eye = eye.cuda()  # found: moved_after_creation
    return (transform - eye).norm()


for x, y in loader:
    optimizer.zero_grad()
    (model(x) - y + penalty(x)).sum().backward()
    optimizer.step()
