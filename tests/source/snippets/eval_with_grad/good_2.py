import torch
import torch.nn.functional as F


def fgsm(model, loader, epsilon):
    """Adversarial examples want the gradient of the input."""
    model.eval()
    fooled = 0
    for x, y in loader:
        x.requires_grad_()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        fooled += (model(x + epsilon * x.grad.sign()).argmax(1) != y).sum()
    return fooled


def saliency(model, images):
    model.eval()
    maps = []
    for image in images:
        image.requires_grad = True
        score = model(image).max()
        maps.append(torch.autograd.grad(score, image)[0].abs())
    return maps
