import torch


class Trainer:
    def epoch(self):
        self.optimizer.zero_grad()
        for i, batch in enumerate(self.loader, 1):
            loss = self.model(**batch).loss / self.accumulate
            self.scaler.scale(loss).backward()
            if i % self.accumulate == 0:  # found: dropped_last_group
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()
