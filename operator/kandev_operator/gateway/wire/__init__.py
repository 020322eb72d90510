"""What the gateway and its clients say to each other. No I/O."""
