"""Tell a crawler what to skip: the copies of replicated collections, except for one copy of each."""
