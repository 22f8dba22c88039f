"""From a call of a kernel to a launch."""
