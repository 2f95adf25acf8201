"""Painted parts → one PDF, and what keeps jobs moving."""
