import torch


class Trainer:
    def _run_batch(self, source, targets):
        source = source.to(self.gpu_id)  # found: pageable_copy
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
