import torch
from torch import nn

parser.add_argument("--sparse", action="store_true")
options = parser.parse_args()
embedding = nn.Embedding(100000, 64, sparse=options.sparse)
optimizer = torch.optim.Adagrad(embedding.parameters())
