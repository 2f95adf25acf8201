from __future__ import annotations

import hashlib
import zipfile
from functools import partial
from pathlib import Path

from api.archive import pack


def test_members_come_back_as_they_were_whatever_their_order(tmp_path: Path) -> None:
    contents = {
        'files/ä/b.png': bytes(range(256)) * 9,
        'files/a.html': b'<p>' * 50_000,
        'inline/0.html': b'',
    }
    chunks = {name: partial(iter, [data[:1000], data[1000:]]) for name, data in contents.items()}
    packed = pack(chunks, tmp_path / 'one.zip')
    again = pack(dict(reversed(chunks.items())), tmp_path / 'two.zip')
    assert packed.path.read_bytes() == again.path.read_bytes()
    assert packed.sha256 == hashlib.sha256(packed.path.read_bytes()).hexdigest()
    assert packed.size == packed.path.stat().st_size < 10_000
    assert packed.members == {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    with zipfile.ZipFile(packed.path) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == contents
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
