"""IR to IR: roles, bytes and counts from effects, the barriers the language promises, layouts and memory for CUDA."""
