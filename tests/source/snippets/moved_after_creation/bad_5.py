import torch
from torch import nn
from torch.autograd import Variable


class Capsules(nn.Module):
    def forward(self, x):
        logits = Variable(torch.zeros(*x.size()))
        if self.use_cuda:
            logits = logits.cuda()  # found: moved_after_creation
        scale = Variable(torch.arange(0, self.width) / 8.0).cuda()  # found: moved_after_creation
        row = Variable(torch.FloatTensor(torch.arange(0, 8)) / SCALE).cuda()  # found: moved_after_creation
        x = x + row
        return x * torch.softmax(logits * scale, dim=2)


for x, y in loader:
    optimizer.zero_grad()
    (Capsules()(x) - y).sum().backward()
    optimizer.step()
