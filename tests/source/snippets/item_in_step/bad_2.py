import torch
from tqdm import tqdm


class Trainer:
    def train_step(self, batch):
        self.optimizer.zero_grad()
        out = self.model(batch)
        loss = self.criterion(out, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.meter.update(loss.detach().item())  # found: item_in_step
        ids = out.argmax(-1).tolist()  # found: item_in_step
        return {"loss": loss.item()}  # found: item_in_step

    def fit(self):
        bar = tqdm(self.loader)
        for batch in bar:
            logs = self.train_step(batch)
            bar.set_postfix(logs)
