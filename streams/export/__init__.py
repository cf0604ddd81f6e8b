"""Export the state to a Parquet data set, which the analyses and other programs can query with SQL."""
