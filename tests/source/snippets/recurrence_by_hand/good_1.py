from torch import nn


class UNet(nn.Module):
    def __init__(self, down, up, block):
        super().__init__()
        self.down, self.up, self.block = nn.ModuleList(down), nn.ModuleList(up), block

    def forward(self, x, times):
        skips = []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        for i in range(len(self.up)):
            x = self.up[i](x, skips[-i])
        for _ in range(3):
            x = self.block(x, times)
        return x


class Writer(nn.Module):
    def __init__(self, cell, head):
        super().__init__()
        self.cell, self.head = cell, head

    def forward(self, token, state, length):
        tokens = []
        for _ in range(length):
            state = self.cell(token, state)
            token = self.head(state).argmax(-1)
            tokens.append(token)
        return tokens
