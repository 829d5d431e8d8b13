import lightning
import torch


class Tasks(lightning.LightningModule):
    def training_step(self, batch, _):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        first, second = self.heads(self.trunk(batch[0]))
        self.manual_backward(self.criterion(first, batch[1]), retain_graph=True)
        self.manual_backward(2.0 * self.criterion(second, batch[2]))  # found: backward_each
        optimizer.step()


def fit(model, loader, optimizer, criteria):
    for x, y in loader:
        out = model(x)
        losses = [criterion(out, y) for criterion in criteria]
        optimizer.zero_grad()
        for loss in losses:
            loss.backward(retain_graph=True)  # found: backward_each
        optimizer.step()
