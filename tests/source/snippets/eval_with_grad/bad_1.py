import torch


def validate(model, loader, criterion, device):
    model.eval()
    total, correct = 0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        outputs = model(images)  # found: eval_with_grad
        correct += (outputs.argmax(1) == labels).sum()
        total += len(labels)
    return correct / total
