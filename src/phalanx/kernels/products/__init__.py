"""Matrix products: plain, batched, split along K, grouped, of experts."""
