"""hotlap inside of other programs: a live loop, IPython, trainers and experiment trackers."""
