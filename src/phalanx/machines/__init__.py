"""Cards: their constants as data, which the library's choices read. Nothing here imports another package of Phalanx."""
