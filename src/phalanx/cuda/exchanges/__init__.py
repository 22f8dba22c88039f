"""Data between the CTAs of a cluster, as CUDA text: pushes, exchanges, reductions, gathers."""
