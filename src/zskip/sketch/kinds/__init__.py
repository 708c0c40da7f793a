"""The kinds of sketches that zskip brings, one module a kind."""
