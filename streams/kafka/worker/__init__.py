"""One worker: the Faust app, its partitions and the stages that run the operators."""
