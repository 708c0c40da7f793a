"""What is gathered for an index: footers, how far they are trusted, and what fills their gaps."""
