import logging

import torch

log = logging.getLogger(__name__)
for i, (x, y) in enumerate(loader):
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    log.debug("loss %s", loss)
    print("step", i, "of", len(loader), x.shape)
    if i % 10 == 0:
        print(f"loss {loss}")
    if loss is None:
        raise ValueError(f"no loss but {loss}")
print(loss)
