"""What is read from PTX after it was made: which instructions follow each other, and which touch work in flight."""
