"""What a client may ask for, one function for each action."""
