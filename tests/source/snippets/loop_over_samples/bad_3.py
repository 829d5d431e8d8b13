import torch
from torch import nn


class Bilinear(nn.Module):
    def forward(self, left, right):
        scores = []
        n = left.size(0)
        for i in range(n):  # found: loop_over_samples
            scores.append(torch.mm(left[i], right[i].t()).sum())
        return torch.stack(scores)


class Enumerated(nn.Module):
    def forward(self, images):
        features = torch.zeros(len(images), 64, device=images.device)
        for i, image in enumerate(images):  # found: loop_over_samples
            features[i] = self.encoder(image.unsqueeze(0))[0]
        return features
