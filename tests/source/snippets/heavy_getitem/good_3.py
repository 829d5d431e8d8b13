from torch import nn
from torch.utils.data import Dataset


class Scale:
    def __call__(self, image):
        return image / 255


class Steps(nn.Module):
    def __call__(self, x):
        for _ in range(3):
            x = x.relu()
        return x


class Pictures(Dataset):
    def __init__(self, images, transform=None):
        self.images, self.transform = images, transform or Scale()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index])
