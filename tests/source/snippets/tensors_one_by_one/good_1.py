import numpy as np
import torch

once = torch.stack([torch.tensor(row) for row in table])


def collate_fn(samples):
    images = torch.stack([image for image, _ in samples])
    arrays = torch.from_numpy(np.stack([s.array for s in samples]))
    views = torch.stack([torch.from_numpy(s.array) for s in samples])
    return images, arrays, views
