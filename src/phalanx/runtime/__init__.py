"""From a compiled kernel to a running one: cache, arguments, descriptors, launch."""
