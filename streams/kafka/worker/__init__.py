"""A worker: its Faust app, its partitions, and the stages that run the operators."""
