"""hotlap inside of other programs: a live loop, IPython and callbacks of trainers."""
