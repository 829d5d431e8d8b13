from accelerate import Accelerator
import torch

accelerator = Accelerator()
for step, batch in enumerate(loader):
    with accelerator.accumulate(model):
        loss = model(**batch).loss
        total_loss += loss.detach().float().item()  # found: item_in_step
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    progress.set_postfix({"loss": loss.item()})  # found: item_in_step
