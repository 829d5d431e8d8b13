import os

import torch

for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        log.write("step\n")
        log.flush()
        os.fsync(log.fileno())  # found: fsync_in_training
