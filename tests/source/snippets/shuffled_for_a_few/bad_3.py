import numpy as np
import torch


class Memory:
    def __init__(self, rows):
        self.rows = rows
        self.shown = np.random.choice(len(rows), 8, replace=False)

    def sample_batch(self, count):
        at = np.random.choice(len(self.rows), size=count, replace=False)  # found: shuffled_for_a_few
        return torch.as_tensor(self.rows[at])
