import torch


def forward_pass(net, batch):
    images, labels = batch
    return net(images), labels


def evaluate(net, loader):
    net.eval()
    right = 0
    for batch in loader:
        logits, labels = forward_pass(net, batch)  # found: eval_with_grad
        right += (logits.argmax(1) == labels).sum()
    return right
