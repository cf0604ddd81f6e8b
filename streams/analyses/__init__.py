"""Find mirrors, replicated directories and collections with SQL over an exported data set.

Each analysis is a sequence of SQL statements, which DuckDB runs on this machine and Spark on many. The statements
therefore use only the SQL that both dialects share.
"""
