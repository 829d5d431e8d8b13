import torch
from torch import nn
from torch.nn import functional


class Loss(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes
        self.log_softmax = nn.LogSoftmax(dim=-1)

    def rows(self, labels):
        return functional.one_hot(labels, self.classes).float() * 0.9 + 0.1 / self.classes

    def forward(self, logits, labels):
        loss = torch.sum(-self.rows(labels) * self.log_softmax(logits), dim=-1)  # found: dense_targets
        return loss.mean()
