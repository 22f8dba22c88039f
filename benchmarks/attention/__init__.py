"""Attention and its gradients, beside cuDNN."""
