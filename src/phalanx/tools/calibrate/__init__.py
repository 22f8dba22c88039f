"""`phalanx calibrate`: measures a card by short kernels, and writes the numbers of the model of time."""
