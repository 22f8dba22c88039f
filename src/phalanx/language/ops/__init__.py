"""What users call inside kernels, one file per family of instructions."""
