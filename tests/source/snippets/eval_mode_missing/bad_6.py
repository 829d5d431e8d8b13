import torch
from torch import nn
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, train_set, valid_set):
        self.model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 8))
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)
        self.train_loader = DataLoader(train_set, batch_size=64, num_workers=2)
        self.valid_loader = DataLoader(valid_set, batch_size=64, num_workers=2)

    def check(self):
        hits = 0
        for x, y in self.valid_loader:
            scores = self.model(x)  # found: eval_mode_missing, eval_with_grad
            predicted = torch.softmax(scores, 1).argmax(1)
            hits += (predicted == y).sum().item()
            self.losses.append(self.criterion(scores, y).item())
        return hits

    def fit(self):
        for epoch in range(10):
            for x, y in self.train_loader:
                self.optimizer.zero_grad()
                self.criterion(self.model(x), y).backward()
                self.optimizer.step()
            print(epoch, self.check())
