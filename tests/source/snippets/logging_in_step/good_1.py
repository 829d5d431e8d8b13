import logging

import torch

logger = logging.getLogger(__name__)


def train(model, loader, optimizer, epochs):
    for epoch in range(epochs):
        for step, x in enumerate(loader):
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            logger.debug("step %d", step)
            if step % 100 == 0:
                logger.info("step %d", step)
        logger.info("epoch %d", epoch)
