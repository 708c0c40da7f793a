"""The files of an index: segments, manifests, sketches, and the live files they are held against."""
