import torch.nn.functional as F
from torch import nn


class Words(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.Conv1d(words, width, 1)
        self.labels = nn.Linear(words, width) if width else nn.Identity()

    def forward(self, ids, other):
        one_hot = F.one_hot(ids, num_classes=9).float()
        return self.embed(ids) + self.mix(one_hot), self.labels(one_hot), other(one_hot)
