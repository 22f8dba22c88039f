"""Choices of a target: layouts, fallbacks and memory of a function that is about to become CUDA text."""
