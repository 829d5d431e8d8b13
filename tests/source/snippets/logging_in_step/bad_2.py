import torch
import wandb
import mlflow


def train(model, loader, optimizer):
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        wandb.log({"loss": loss.detach()})  # found: logging_in_step
        mlflow.log_metric("lr", 0.1)  # found: logging_in_step
        with open("log.txt", "a") as log:  # found: logging_in_step
            log.write("step\n")
