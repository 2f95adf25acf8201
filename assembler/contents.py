"""What a PDF holds, counted when it is written and again when the witness reads it back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Outline entries are those of the first level; fields are those that have no parent."""

    pages: int
    destinations: int
    outline_entries: int
    attachments: int
    fields: int
