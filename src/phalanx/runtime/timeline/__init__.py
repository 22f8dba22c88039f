"""Timelines of kernels: `px.trace` and the `Trace` it gives, as text, as a file for Perfetto, and as a page."""
