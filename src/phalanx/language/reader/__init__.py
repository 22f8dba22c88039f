"""From the source of a kernel to instructions."""
