import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self, layer, width, heads):
        super().__init__()
        self.attentions = [layer(width, width) for _ in range(heads)]
        for number, attention in enumerate(self.attentions):
            self.add_module(f"attention_{number}", attention)
        self.experts = nn.ModuleList(layer(width, width) for _ in range(heads))

    def forward(self, x, adjacency):
        outputs = []
        for attention in self.attentions:  # found: layers_one_by_one
            outputs.append(attention(x, adjacency))
        mixed = torch.cat(outputs, dim=1)
        return sum(self.experts[i](mixed, adjacency) for i in range(4))  # found: layers_one_by_one


class Experts(nn.Module):
    def __init__(self, width, number):
        super().__init__()
        self.experts = nn.ModuleList()
        for _ in range(number):
            self.experts.append(nn.Linear(width, width))

    def forward(self, x):
        return torch.stack([expert(x) for expert in self.experts])  # found: layers_one_by_one
