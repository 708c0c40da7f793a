"""The pages of docs/ that show the benchmarks."""
