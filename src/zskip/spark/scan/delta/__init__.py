"""Tables that Delta reads, whose files come from the entries of its log."""
