import torch


@torch.no_grad()
def score(model, loader):
    return sum(model(x).sum() for x, _ in loader)


def main(model, loader, val_loader, optimizer, criterion):
    for epoch in range(10):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        print(score(model, val_loader))


@torch.no_grad()
def precompute(teacher, loader):
    """Its caller, in another file, says in which mode."""
    return [teacher(x) for x, _ in loader]


def collect(envs, network, observation, optimizer, steps):
    """A rollout: no evaluation."""
    for _ in range(steps):
        for t in range(128):
            with torch.no_grad():
                action = network(observation).argmax(-1)
            observation = envs.step(action)
        optimizer.zero_grad()
        network(observation).mean().backward()
        optimizer.step()
