"""The files of an index: segments, manifests, sketches, and the live files that they describe."""
