"""Attention on Hopper's tensor cores: scores never leave the SM, softmax is done block by block."""
