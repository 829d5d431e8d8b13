import torch


def adversarial(generator, critic, loader, of_generator, of_critic):
    for x, real in loader:
        fake = generator(x)
        loss = critic(real).mean() - critic(fake).mean()
        of_critic.zero_grad()
        loss.backward(retain_graph=True)
        of_critic.step()
        of_generator.zero_grad()
        (-critic(fake).mean()).backward()
        of_generator.step()


def balanced(model, loader, optimizer, first, second):
    for x, y in loader:
        out = model(x)
        optimizer.zero_grad()
        first(out, y).backward(retain_graph=True)
        norms = [p.grad.norm() for p in model.parameters()]
        second(out, y).backward()
        optimizer.step()
        print(sum(norms))


def apart(model, loader, optimizer, criterion):
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x[:8]), y[:8]).backward()
        criterion(model(x[8:]), y[8:]).backward()
        optimizer.step()
