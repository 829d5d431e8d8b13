import torch


def main(models, loader, optimizer):
    models = [torch.compile(model) for model in models]
    for i in range(len(models)):
        models[i] = torch.compile(models[i])
    for x in loader:
        optimizer.zero_grad()
        sum(model(x).sum() for model in models).backward()
        optimizer.step()
