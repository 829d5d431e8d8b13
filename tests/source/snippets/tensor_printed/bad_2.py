import logging

import torch
import wandb
from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

log = logging.getLogger(__name__)
writer = SummaryWriter()


def fit(model, loader, optimizer):
    bar = tqdm(loader)
    for step, (x, y) in enumerate(bar):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)  # found: tensor_printed
        wandb.log({"loss": loss, "step": step})  # found: tensor_printed
        log.info("loss %s", loss)  # found: tensor_printed
        bar.set_postfix(loss=loss)  # found: tensor_printed
        bar.set_description(f"loss {loss}")  # found: tensor_printed
