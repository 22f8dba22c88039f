"""Plans of library calls: what a function launches, as expressions of the sizes of its arguments."""
