"""From IR to CUDA C++ with inline PTX, and through NVRTC to a cubin."""
