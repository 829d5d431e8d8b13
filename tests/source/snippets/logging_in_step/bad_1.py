import logging

import torch
from torch.utils.tensorboard import SummaryWriter

logger = logging.getLogger(__name__)
writer = SummaryWriter()
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    logger.info("step %d", step)  # found: logging_in_step
    writer.add_scalar("loss", loss.detach(), step)  # found: logging_in_step
    writer.flush()  # found: logging_in_step
