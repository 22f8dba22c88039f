"""Matrix products, beside cuBLAS, Triton and TileLang."""
