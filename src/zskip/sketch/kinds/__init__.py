"""The kinds of sketches that come with zskip, one module for each."""
