"""What tests of several rooms share: kernels, stand-ins for torch and the driver, CUDA text run on the CPU, pages."""
