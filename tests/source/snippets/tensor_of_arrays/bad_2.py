import cv2
import torch


def load(path):
    image = cv2.imread(path)
    return image.astype("float32") / 255


def collate(batch):
    images = [load(path) for path, _ in batch]
    labels = [label for _, label in batch]
    return torch.tensor(images), torch.tensor(labels)  # found: tensor_of_arrays
