import torch
from accelerate import Accelerator

accelerator = Accelerator()
for epoch in range(3):
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step % 50 == 0:
            accelerator.save_state("out")  # found: checkpoint_in_step
