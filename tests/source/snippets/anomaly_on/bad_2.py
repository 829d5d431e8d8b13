from torch import autograd


def step(model, x, y, criterion, optimizer):
    with autograd.detect_anomaly():  # found: anomaly_on
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
