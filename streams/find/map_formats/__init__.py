"""The formats of redirect maps: one module per kind of software that reads them."""
