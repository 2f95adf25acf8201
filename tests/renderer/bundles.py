"""Jobs for tests: their input archive and their spec, made of files and records."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from assembler.assemble import assemble
from renderer.archive import Archive
from renderer.paint import Painting, Report
from renderer.sources import JobSpec
from renderer.weasy import system_fonts

FIXTURES = Path(__file__).parent.parent / 'fixtures'
Record = Mapping[str, Any]


def a_font(name: str = 'DejaVuSerif-Bold.ttf') -> bytes:
    """A font file of this host: tests need DejaVu, as rendering does."""
    return next(path for path in system_fonts() if path.name == name).read_bytes()


def a_png(color: str = 'teal', size: int = 20) -> bytes:
    file = io.BytesIO()
    image = Image.new('RGBA', (size, size), color)
    image.putpixel((3, 3), (255, 0, 0, 100))
    image.save(file, 'PNG')
    return file.getvalue()


def fixture(name: str) -> dict[str, bytes]:
    """The files of one folder of tests/fixtures, by relative name."""
    folder = FIXTURES / name
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob('*')) if path.is_file()}


def invoice_files() -> dict[str, bytes]:
    return {**fixture('invoice'), 'fonts/bundled.ttf': a_font(), 'logo.png': a_png()}


def invoice_records(count: int) -> list[dict[str, Any]]:
    goods = ['Tea', 'Çay', 'Kaffee & Kuchen', 'Zebra <stuffed>', 'Quince', 'ﬁne ﬂour', 'Ωmega']
    return [
        {
            'number': 1_000 + index,
            'customer': f'Customer {index}\n{goods[index % 7]} Street {index * 3}',
            'lines': [
                {'what': goods[(index + line) % 7], 'price': f'{index}.{line}0'} for line in range(index % 4 + 1)
            ],
            'total': f'{index * 17}.50',
        }
        for index in range(count)
    ]


@dataclass(kw_only=True)
class Job:
    """What a job brings. Documents are added in order."""

    folder: Path
    files: Mapping[str, bytes] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    parts: Any = 'auto'
    documents: list[dict[str, Any]] = field(default_factory=list)
    _inline: dict[str, bytes] = field(default_factory=dict)

    def html(self, text: str) -> Job:
        member = f'inline/{len(self.documents)}.html'
        self._inline[member] = text.encode()
        self.documents.append({'kind': 'html', 'source': member, 'base_url': 'bundle:///'})
        return self

    def file(self, name: str) -> Job:
        self.documents.append({'kind': 'html', 'source': f'files/{name}', 'base_url': f'bundle:///{name}'})
        return self

    def pdf(self, name: str) -> Job:
        self.documents.append({'kind': 'pdf', 'source': f'files/{name}', 'title_name': name})
        return self

    def template(self, name: str, records: Sequence[Record] | bytes, count: int | None = None) -> Job:
        member = f'inline/{len(self.documents)}.records.ndjson'
        if not isinstance(records, bytes):
            records = b''.join(json.dumps(record).encode() + b'\n' for record in records)
        self._inline[member] = records
        self.documents.append({
            'kind': 'template', 'source': f'files/{name}', 'base_url': f'bundle:///{name}', 'records': member,
            'record_count': records.count(b'\n') if count is None else count,
        })  # fmt: skip
        return self

    @property
    def spec(self) -> dict[str, Any]:
        return {
            'documents': self.documents,
            'options': dict(self.options),
            'parts': self.parts,
            'metadata': dict(self.metadata),
            'input': {'key': 'jobs/x/input.zip', 'sha256': '0' * 64, 'bytes': 1},
        }

    @property
    def whole(self) -> dict[str, int]:
        """The part spec of all items."""
        return {'first_item': 0, 'item_count': JobSpec.from_json(self.spec).item_count}

    def archive(self) -> Path:
        path = self.folder / 'input.zip'
        with zipfile.ZipFile(path, 'w') as archive:
            for name, data in self.files.items():
                archive.writestr(f'files/{name}', data)
            for member, data in self._inline.items():
                archive.writestr(member, data)
        return path

    def paint(
        self,
        *,
        part: dict[str, int] | None = None,
        placeholders: bool = False,
        skip: frozenset[int] = frozenset(),
        report: Report = lambda position: None,
    ) -> tuple[dict[str, Any], bytes]:
        """Paint in this process: the result, and the PDF of this part alone."""
        output = self.folder / 'part.bundle'
        with Archive(self.archive()) as archive:
            painting = Painting(archive, JobSpec.from_json(self.spec), part=part or self.whole)
            result = painting.paint(output, report=report, placeholders=placeholders, skip=skip)
        return result, b''.join(assemble([output]))


MakeJob = Callable[..., Job]
