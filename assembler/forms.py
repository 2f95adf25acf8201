"""One interactive form from the forms of all parts (ISO 32000-1, 12.7.2)."""

from __future__ import annotations

from pypdf.generic import DictionaryObject, IndirectObject, NameObject, TextStringObject

from assembler.part import Part, dictionary, lookup
from assembler.pdf_file import PdfFile
from assembler.relocation import encode_name


class Form:
    """Two fields of one name would share their value, so a name that was there in an earlier part is made unique."""

    def __init__(self, target: PdfFile) -> None:
        self._target = target
        self._fields: list[bytes] = []
        self._names: set[str] = set()
        self._resources: dict[str, dict[str, bytes]] = {}
        self._others: dict[str, bytes] = {}

    def take(self, part: Part) -> None:
        form = dictionary(part.catalog, '/AcroForm')
        if form is None:
            return
        names = set()
        for reference in lookup(form, '/Fields') or ():
            field = reference.get_object()
            if '/Parent' in field:  # listed beside its parent: only the parent is a field of the form
                continue
            names.add(self._name(part, field))
            self._fields.append(part.relocation.encode(reference))
        self._names |= names
        self._take_resources(part, form)
        for name, value in form.items():
            if name not in {'/Fields', '/DR'}:
                self._others.setdefault(name, part.relocation.encode(value))

    def _name(self, part: Part, field: DictionaryObject) -> str:
        name = str(lookup(field, '/T') or '')
        if name in self._names:
            name = f'{part.index}/{name}'
            field[NameObject('/T')] = TextStringObject(name)
        return name

    def _take_resources(self, part: Part, form: DictionaryObject) -> None:
        """Fields name their fonts, by names that hold for the whole form; equal names stand for equal fonts."""
        for category, value in (dictionary(form, '/DR') or {}).items():
            members = value.get_object() if isinstance(value, IndirectObject) else value
            if isinstance(members, DictionaryObject):
                found = self._resources.setdefault(category, {})
                for name, member in members.items():
                    if name not in found:
                        found[name] = part.relocation.encode(member)

    def finish(self) -> dict[str, bytes]:
        if not self._fields:
            return {}
        resources = {category: encode_entries(members) for category, members in self._resources.items()}
        form = {
            **self._others,
            '/Fields': b'[%b]' % b' '.join(self._fields),
            **({'/DR': encode_entries(resources)} if resources else {}),
        }
        return {'/AcroForm': b'%d 0 R' % self._target.add(encode_entries(form))}


def encode_entries(entries: dict[str, bytes]) -> bytes:
    """A dictionary of encoded values as PDF source."""
    return b'<<' + b''.join(encode_name(name) + b' ' + value for name, value in entries.items()) + b'>>'
