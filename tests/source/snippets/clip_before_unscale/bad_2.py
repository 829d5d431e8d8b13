import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.scaler = torch.amp.GradScaler()

    def step(self, x, y):
        with torch.autocast("cuda"):
            loss = self.criterion(self.model(x), y)
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_value_(self.model.parameters(), 0.5)  # found: clip_before_unscale
        self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
