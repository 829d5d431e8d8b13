import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model, self.softmax = model, nn.Softmax(dim=-1)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def loss(self, x, y):
        probabilities = torch.softmax(self.model(x), dim=-1)
        return self.criterion(probabilities, y)  # found: softmax_before_cross_entropy

    def other(self, x, y):
        return self.criterion(self.softmax(self.model(x)), y)  # found: softmax_before_cross_entropy

    def third(self, x, y):
        return self.criterion(self.model(x).softmax(-1), y)  # found: softmax_before_cross_entropy
