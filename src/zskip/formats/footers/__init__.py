"""What footers of Parquet files say before a rewrite reads the files: columns, codecs, and what a rewrite may lose."""
