"""A document → painted parts."""
