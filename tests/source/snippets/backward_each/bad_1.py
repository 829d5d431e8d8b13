import torch


def train(model, loader, optimizer, content_of, style_of, smooth):
    for image, target in loader:
        optimizer.zero_grad()
        features = model(image)
        content = content_of(features, target)
        content.backward(retain_graph=True)
        style = 1e3 * style_of(features, target)
        style.backward(retain_graph=True)
        variation = smooth(image)
        variation.backward()  # found: backward_each
        optimizer.step()
