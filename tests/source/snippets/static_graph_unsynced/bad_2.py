import torch


def train(net, batches, optimizer):
    model = torch.nn.parallel.DistributedDataParallel(net, None, static_graph=True)  # found: static_graph_unsynced
    with model.no_sync():
        for batch in batches[:-1]:
            model(batch).mean().backward()
    model(batches[-1]).mean().backward()
    optimizer.step()
