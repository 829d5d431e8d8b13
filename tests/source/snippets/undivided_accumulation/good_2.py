import torch
from torch import nn


def critic(generator, discriminator, loader, opt_g, opt_d):
    for i, x in enumerate(loader):
        opt_d.zero_grad()
        discriminator(x).mean().backward()
        opt_d.step()
        if i % 5 == 0:
            opt_g.zero_grad()
            discriminator(generator(x)).mean().backward()
            opt_g.step()


def summed(model, loader, optimizer, k):
    criterion = nn.CrossEntropyLoss(reduction="sum")
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss.backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            for p in model.parameters():
                p.grad /= k
            optimizer.step()
            optimizer.zero_grad()


def accelerated(model, loader, optimizer, accelerator):
    for i, batch in enumerate(loader):
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
