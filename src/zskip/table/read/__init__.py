"""The verbs that read a table: queries, explanations, proofs."""
