"""LAMB's and LARS's steps for the CPU, compiled here by the C compiler of the machine.

Torch has no fused kernel for them, and an update made of torch's operations passes over a layer
five times. Where there is no compiler, the optimizers do without.
"""
