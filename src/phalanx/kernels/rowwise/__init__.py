"""Functions along rows: softmax, norms, cross entropy."""
