"""What Java and Python of this room ask of each other."""
