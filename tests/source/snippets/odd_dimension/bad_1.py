from torch import nn

embedding = nn.Embedding(50257, 768)  # found: odd_dimension
hidden = nn.Linear(768, 300)  # found: odd_dimension
