import contextlib

import torch


def train(model, loader, optimizer, criterion, args):
    context = torch.profiler.profile() if args.profile else contextlib.nullcontext()
    with context:
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()


def with_switch(model, loader, optimizer, args):
    with torch.autograd.profiler.profile(enabled=args.profile), torch.autograd.profiler.profile(False):
        for x in loader:
            with torch.profiler.record_function("step"):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()


def few_steps(model, loader, optimizer):
    with torch.profiler.profile():
        for step, x in enumerate(loader):
            if step == 10:
                break
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
