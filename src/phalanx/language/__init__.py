"""What users write: the functions of the language, and the reader that turns Python source into IR."""
