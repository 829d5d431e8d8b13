"""Planted: each step evaluates the whole graph again behind its update, with gradients."""

import argparse
import time

import torch
from torch import nn


class GraphConvolution(nn.Module):
    def __init__(self, size, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, out) / size**0.5)

    def forward(self, x, adj):
        return adj @ (x @ self.weight)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphConvolution(256, 64), GraphConvolution(64, 7)

    def forward(self, x, adj):
        x = nn.functional.dropout(x, 0.2, training=self.training)  # else an evaluation repeats it
        hidden = nn.functional.dropout(self.first(x, adj).relu(), 0.5, training=self.training)
        return nn.functional.log_softmax(self.second(hidden, adj), dim=1)


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1000)
args = parser.parse_args()
torch.manual_seed(0)
features, labels = torch.randn(1200, 256), torch.randint(0, 7, (1200,))
adj = torch.softmax(torch.randn(1200, 1200), dim=1)
idx_train, idx_val = range(140), range(200, 500)
model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def train(epoch):
    t = time.time()
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = nn.functional.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    model.eval()
    output = model(features, adj)  # planted
    loss_val = nn.functional.nll_loss(output[idx_val], labels[idx_val])
    print(f"epoch {epoch} loss {loss_train.item():.4f} val {loss_val.item():.4f}", time.time() - t)


for epoch in range(args.epochs):
    train(epoch)
