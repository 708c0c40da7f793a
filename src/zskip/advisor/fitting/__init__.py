"""Fit layouts to a workload, and choose between them by cross-validation."""
