"""Constants between the natural logarithm and that to base 2, which the hardware computes."""

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
