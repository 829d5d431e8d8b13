import numpy as np
import torch


def batch_metrics(logits, labels):
    guess = logits.argmax(-1).cpu()  # found: cpu_in_step
    return (guess.numpy() == labels.numpy()).mean()


def train(model, loader, optimizer):
    for x, y in loader:
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        scores.append(batch_metrics(logits, y))
        raw.append(np.asarray(loss.detach()))  # found: cpu_in_step
