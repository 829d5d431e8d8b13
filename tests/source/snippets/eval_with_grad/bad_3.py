import torch
import torch.nn as nn


class Trainer:
    def __init__(self, model, val_loader):
        self.model = model
        self.val_loader = val_loader
        self.criterion = nn.MSELoss()

    def evaluate(self):
        self.model.eval()
        losses = []
        for batch in self.val_loader:
            prediction = self.model(batch["x"])  # found: eval_with_grad
            losses.append(self.criterion(prediction, batch["y"]).item())
        return sum(losses) / len(losses)
