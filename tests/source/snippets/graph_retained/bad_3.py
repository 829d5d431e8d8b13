import torch
from torch import nn
from torch.utils.data import DataLoader


class Trainer:
    """One backward pass a step, in one of two branches; the state is detached in each step."""

    def __init__(self, train_set, amp):
        self.model, self.amp = nn.GRU(64, 64), amp
        self.head = nn.Linear(64, 8)
        self.criterion = nn.CrossEntropyLoss()
        self.scaler = torch.amp.GradScaler("cuda")
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)
        self.loader = DataLoader(train_set, batch_size=64, num_workers=2)

    def fit(self):
        h = torch.zeros(1, 64, 64)
        for x, y in self.loader:
            h = h.detach()
            with torch.autocast("cuda", dtype=torch.float16, enabled=self.amp):
                out, h = self.model(x, h)
                loss = self.criterion(self.head(out[-1]), y)
            self.optimizer.zero_grad()
            if self.amp:
                self.scaler.scale(loss).backward(retain_graph=True)  # found: graph_retained
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                loss.backward(None, True)  # found: graph_retained
                self.optimizer.step()
