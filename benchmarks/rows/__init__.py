"""Rows: softmax, norms, losses, rows by index, copies."""
