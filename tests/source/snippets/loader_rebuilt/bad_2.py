import torch


class Trainer:
    def get_loader(self):
        return torch.utils.data.DataLoader(self.data, 8, num_workers=2)  # found: loader_rebuilt

    def epoch(self):
        for batch in self.get_loader():
            self.optimizer.zero_grad()
            loss = self.model(batch).mean()
            loss.backward()
            self.optimizer.step()

    def fit(self):
        while self.current < self.epochs:
            self.epoch()
            self.current += 1
