"""One rank of a layout, run on fake tensors: its memory, FLOPs and traffic, without the machines.

Torch's fake process group answers for the other ranks, and fake tensors carry shapes but no data,
so a rank of 16384 GPUs takes seconds and a few hundred MB here. `python -m hotlap.parallel.dryrun`
reads a job as JSON on stdin and answers with one line of JSON (`hotlap plan` asks it).
"""
