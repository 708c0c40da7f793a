"""How a query reads less: the FileIndex, plans, and what they say."""
