"""Queries of a Spark Connect session as its client sends them: messages, changed before they leave."""
