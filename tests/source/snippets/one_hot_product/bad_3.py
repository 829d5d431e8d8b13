import torch.nn.functional as F
from torch import nn


class Words(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.words = words
        self.embed = nn.Linear(words, width, bias=False)
        self.out = nn.Linear(width, words)

    def forward(self, ids):
        one_hot = F.one_hot(ids, num_classes=self.words).float()
        return self.out(self.embed(one_hot))  # found: one_hot_product
