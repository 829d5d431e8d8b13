import tensorflow as tf
from torch import nn

layer = tf.keras.layers.Embedding(33278, 201)
head = nn.Conv1d(1, 16, 9)
out = nn.Linear(1024, 100)
small = nn.Linear(4, 16)
depthwise = nn.Conv2d(32, 32, 3, groups=32)
