import lightning as L
import torch


def test_backward_is_finite(model, x):
    with torch.autograd.detect_anomaly():
        model(x).sum().backward()


def main(model, data, args):
    L.Trainer(max_epochs=3, detect_anomaly=args.debug).fit(model, data)
    L.Trainer(max_epochs=3, detect_anomaly=False).fit(model, data)
