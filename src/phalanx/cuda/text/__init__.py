"""The writer of CUDA text and what every emitter uses of it."""
