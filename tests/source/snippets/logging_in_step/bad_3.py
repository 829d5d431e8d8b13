import wandb
from torch.utils.tensorboard import SummaryWriter

run = wandb.init(project="here")
writer = SummaryWriter("logs")
i = 0
for images, targets in loader:
    i += 1
    loss = criterion(model(images), targets)
    loss.backward()
    optimizer.step()
    run.log({"step": i})  # found: logging_in_step
    for name, parameter in head.named_parameters():
        if "weight" in name:
            writer.add_scalar("norm", parameter.grad.norm(), i)  # found: logging_in_step
