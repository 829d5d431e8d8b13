import torch
from torchvision.utils import save_image


def run_epoch(model, loader, criterion, optimizer=None, training=True):
    model.train(training)
    for x, y in loader:
        with torch.set_grad_enabled(training):
            loss = criterion(model(x), y)
        if training:
            loss.backward()
            optimizer.step()


def test():
    model.eval()
    with torch.no_grad():
        return model(features, adjacency)


def saliency(image):
    model.eval()
    image.requires_grad_()
    score = model(image).max()
    score.backward()
    return image.grad


for x in loader:
    fake = generator(x)
    save_image(fake.detach(), "fake.png")
    loss = criterion(discriminator(fake))
    loss.backward()
    optimizer.step()
    with torch.inference_mode():
        save_image(generator(noise), "sample.png")
