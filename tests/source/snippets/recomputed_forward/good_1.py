import torch


class Net(torch.nn.Module):
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def save(model, checkpoint):
    torch.save(model.state_dict(), checkpoint("last.pt"))
