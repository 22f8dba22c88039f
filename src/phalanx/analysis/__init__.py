"""What is known of a function, read from the effects of its instructions; nothing here changes it."""
