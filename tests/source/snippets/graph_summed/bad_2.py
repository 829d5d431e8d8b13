import torch.nn.functional as F


class Trainer:
    def train_epoch(self):
        self.running = 0.0
        epoch_loss = 0.0
        for batch in self.loader:
            out = self.model(batch["x"])
            loss = F.cross_entropy(out, batch["y"], label_smoothing=0.1)
            loss.backward()
            self.optimizer.step()
            self.running += loss * batch["x"].size(0)  # found: graph_summed
            epoch_loss = epoch_loss + loss / 4  # found: graph_summed
        return epoch_loss
