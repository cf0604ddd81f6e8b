"""The additional tasks of the worker that owns partition 0: commit sweeps and publish moves."""
