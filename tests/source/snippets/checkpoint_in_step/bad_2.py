import torch


class Trainer:
    def save(self, step):
        torch.save({"model": self.model.state_dict(), "step": step}, self.path)  # found: checkpoint_in_step

    def train(self):
        for step, (x, y) in enumerate(self.loader):
            self.optimizer.zero_grad()
            self.criterion(self.model(x), y).backward()
            self.optimizer.step()
            if step % 10 == 0:
                self.save(step)
