"""A scan's filters: read as text, and decided where columns are constant."""
