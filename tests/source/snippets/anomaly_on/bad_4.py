import torch
from torch.autograd import set_detect_anomaly


def train(model, loader, optimizer):
    with set_detect_anomaly(mode=True):  # found: anomaly_on
        for x in loader:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
