"""Measure what the analyses find in sets of replicated pages whose answers are known."""
