"""All measurements that need a GPU, in one call: `python -m benchmarks.gpu`."""
