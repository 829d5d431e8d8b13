import torch


def divided(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()


def in_place(model, loader, optimizer, criterion, k):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        loss /= k
        loss.backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()


def if_needed(model, loader, optimizer, criterion, args):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        if args.accumulate > 1:
            loss = loss / args.accumulate
        loss.backward()
        if (i + 1) % args.accumulate == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
