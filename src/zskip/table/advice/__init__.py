"""The layout that a workload asks for: advice, the choice for an optimize, and what queries cost."""
