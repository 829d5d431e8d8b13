from torch import nn

VOCAB = 30522 + 1
WIDTH = 500


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, 512)  # found: odd_dimension
        self.conv = nn.Conv2d(in_channels=64, out_channels=90, kernel_size=3)  # found: odd_dimension
        self.up = nn.Linear(in_features=512, out_features=WIDTH)  # found: odd_dimension
        self.attention = nn.MultiheadAttention(100, 4)  # found: odd_dimension
