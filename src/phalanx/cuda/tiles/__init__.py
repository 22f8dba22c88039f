"""Register tiles as text: how loops over a thread's registers find elements, memory and each other."""
