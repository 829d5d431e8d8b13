from torch.utils.data import DataLoader


def train_one_epoch(model, optimizer, train_set, args):
    loader = DataLoader(train_set, args.batch, num_workers=args.workers)  # found: loader_rebuilt
    for x, y in loader:
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(args):
    for epoch in range(args.epochs):
        train_one_epoch(model, optimizer, train_set, args)
