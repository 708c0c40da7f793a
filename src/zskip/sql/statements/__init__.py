"""Text to statements of zskip."""
