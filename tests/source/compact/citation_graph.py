"""A graph network on one graph: each epoch is one step, validated right behind it."""

import torch
import torch.nn.functional as F
from torch import nn, optim


class Graph(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.one = nn.Linear(features, hidden)
        self.two = nn.Linear(hidden, classes)

    def forward(self, x, edges):
        x = F.dropout(F.relu(torch.spmm(edges, self.one(x))), 0.5, self.training)
        return F.log_softmax(torch.spmm(edges, self.two(x)), dim=1)


features, edges, labels, known, unknown = read_graph("cora")
model = Graph(features.shape[1], 16, 8).cuda()
optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)  # found: unfused_optimizer, adam_with_decay
features, edges, labels = features.cuda(), edges.cuda(), labels.cuda()


def train(epoch):
    model.train()
    optimizer.zero_grad()
    output = model(features, edges)
    loss = F.nll_loss(output[known], labels[known])
    loss.backward()
    optimizer.step()
    model.eval()
    output = model(features, edges)  # found: eval_with_grad
    print(epoch, loss.item(), F.nll_loss(output[unknown], labels[unknown]).item())  # found: item_in_step


def test():
    model.eval()
    output = model(features, edges)  # found: eval_with_grad
    print(F.nll_loss(output[unknown], labels[unknown]).item())


for epoch in range(200):  # found: full_precision_training, uncompiled_model, constant_learning_rate
    train(epoch)
test()
