"""Where rows go: ranks, curves, cuts, and the prediction of what a query would read (NumPy only)."""
