"""A few numbers that are written out, and no list or array among them."""

import numpy as np
import torch
from torch.utils.data import Dataset


class Boxes(Dataset):
    def __getitem__(self, index):
        value = self.labels[index]
        x, y, w, h = self.boxes[index]
        pair = [value]
        return {
            "label": torch.tensor([value]),
            "stored": torch.LongTensor([self.labels[index]]),
            "box": torch.tensor([x, y, x + w, y + h]),
            "corners": torch.tensor([[x, y], [x + w, y + h]]),
            "size": torch.tensor([len(self.boxes), float(value)]),
            "pair": torch.tensor(pair),
        }

    def __len__(self):
        return len(self.boxes)


for step, rows in enumerate(loader):
    loss = model(rows)
    loss.backward()
    optimizer.step()
    state, reward, over, _ = environment.step(1)
    rewards = torch.tensor([reward], dtype=torch.float32)
    mean = torch.tensor([np.mean([reward, 1.0]), loss.item()])
