"""Logits; soft targets; a loss that wants logarithms; a softmax in evaluation only."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 8)

    def forward(self, x):
        logits = self.fc(x)
        if self.training:
            return logits
        return torch.softmax(logits, 1)


model = Net()
criterion, likelihood = nn.CrossEntropyLoss(), nn.NLLLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    logits = model(x)
    soft = nn.functional.cross_entropy(logits, torch.softmax(teacher_logits, 1))
    loss = criterion(logits, y) + likelihood(torch.log_softmax(logits, 1), y) + soft
    loss.backward()
    optimizer.step()
    attention = torch.softmax(scores, 1) @ values
    other = criterion(attention, y)
