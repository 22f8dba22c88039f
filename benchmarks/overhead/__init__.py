"""What compiling, checking, simulating and launching cost."""
