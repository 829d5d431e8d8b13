import argparse

from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=300)
args = parser.parse_args()
VOCABULARY = 50257
config = {"width": 250}


class Net(nn.Module):
    def __init__(self, inputs=1000, size=500):
        super().__init__()
        self.size = size
        self.first = nn.Linear(1024, self.size)  # found: odd_dimension
        self.second = nn.Linear(size, 512)  # found: odd_dimension


embedding = nn.Embedding(VOCABULARY, 768)  # found: odd_dimension
recurrent = nn.LSTM(256, args.hidden)  # found: odd_dimension
wide = nn.Linear(config["width"], 512)  # found: odd_dimension
