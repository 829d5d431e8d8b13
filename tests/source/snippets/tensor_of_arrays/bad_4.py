import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __getitem__(self, index):
        image = np.load(self.paths[index])
        return image, self.labels[index]


def collate(batch):
    images = [image for image, _ in batch]
    labels = [label for _, label in batch]
    return torch.tensor(images), torch.tensor(labels)  # found: tensor_of_arrays


def unzip(batch):
    images, labels = zip(*batch)
    return torch.tensor(images), torch.tensor(labels)  # found: tensor_of_arrays


train_set = Images()
loader = DataLoader(train_set, num_workers=2, persistent_workers=True, collate_fn=collate)
other = DataLoader(Images(), num_workers=2, persistent_workers=True, collate_fn=unzip)
