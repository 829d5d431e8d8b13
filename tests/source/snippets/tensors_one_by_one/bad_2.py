import torch


def collate_fn(samples):
    images = torch.stack(tuple(s["image"] for s in samples))
    boxes = torch.stack([torch.as_tensor(s["box"]).float() for s in samples])  # found: tensors_one_by_one
    return images, boxes
