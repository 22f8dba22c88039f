"""The device: driver, arrays, descriptors of tensors, timing."""
