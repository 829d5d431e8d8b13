import torch


def train(model, loader, optimizer, criterion, scaler, args):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        if args.amp:
            scaler.scale(loss).backward()
            if args.clip:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
