"""One form over the fields of all parts (ISO 32000-1, 12.7)."""

from __future__ import annotations

from assembler.encoding import dictionary, reference, references
from assembler.tables import Tables


class Form:
    def __init__(self) -> None:
        self._fields: list[int] = []
        self._fonts: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._fields)

    def take(self, tables: Tables, numbers: list[int]) -> None:
        self._fields += [numbers[slot] for slot in tables.fields]
        for name, slot in tables.field_fonts.items():
            self._fonts.setdefault(name, reference(numbers[slot]))

    def finish(self) -> dict[str, bytes]:
        """The entry of the catalog; none if there is no field."""
        if not self._fields:
            return {}
        resources = dictionary({'Font': dictionary(self._fonts)})
        form = {'Fields': references(self._fields), 'DR': resources, 'NeedAppearances': b'true'}
        return {'AcroForm': dictionary(form)}
