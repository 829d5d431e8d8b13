import random

from torch.utils.data import Dataset


class Erase:
    def __call__(self, image):
        top = random.randint(0, 24)
        for y in range(top, top + 8):  # found: heavy_getitem
            for x in range(8):
                image[y, x] = 0
        return image


class Scale:
    def __call__(self, image):
        return image / 255


class Pictures(Dataset):
    def __init__(self, images):
        self.images, self.transforms = images, [Erase(), Scale()]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index].copy()
        for transform in self.transforms:
            image = transform(image)
        return image
