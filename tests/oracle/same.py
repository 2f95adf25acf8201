"""Whether two PDFs are the same document, and if not, their differences in words.

    python -m tests.oracle.same EXPECTED.pdf ACTUAL.pdf

prints one line for each kind of difference and exits with 1 if there is any.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from PIL import ImageChops

from tests.oracle.reading import pixels, read

LONGEST: Final = 160


def assert_same(expected: bytes, actual: bytes, *, but: frozenset[str] = frozenset()) -> None:
    """Fail with all differences, but for kinds that may differ."""
    found = [line for line in differences(expected, actual) if line.partition(':')[0] not in but]
    assert not found, '\n'.join(['the documents differ', *found])


def first_difference(expected: bytes, actual: bytes) -> str | None:
    """The first difference in words; None if there is none."""
    return next(differences(expected, actual), None)


def differences(expected: bytes, actual: bytes) -> Iterator[str]:
    """One line for each kind of thing that differs: `kind: where and how`."""
    if expected == actual:
        return
    one, two = read(expected), read(actual)
    counts = len(one['pages']), len(two['pages'])
    if counts[0] != counts[1]:
        yield f'page count: {counts[0]} expected, {counts[1]} found'
    yield from _on_pages(one.pop('pages'), two.pop('pages'), expected, actual)
    for kind in one:
        difference = _difference(one[kind], two[kind])
        if difference:
            yield f'{kind}: {difference}'


def _on_pages(one: list[dict[str, Any]], two: list[dict[str, Any]], expected: bytes, actual: bytes) -> Iterator[str]:
    pairs = list(zip(one, two, strict=False))
    for kind in pairs[0][0] if pairs else ():
        differing = [index for index, (first, second) in enumerate(pairs) if first[kind] != second[kind]]
        if differing:
            index = differing[0]
            if kind == 'pixels':
                how = _pixel_difference(expected, actual, index)
            else:
                how = _difference(pairs[index][0][kind], pairs[index][1][kind])
            more = f' (and {len(differing) - 1} more pages)' if len(differing) > 1 else ''
            yield f'{kind}: page {index + 1}{more}: {how}'


def _pixel_difference(expected: bytes, actual: bytes, index: int) -> str:
    one, two = pixels(expected, index), pixels(actual, index)
    if one.size != two.size:
        return f'{one.size} expected, {two.size} found'
    return f'within {ImageChops.difference(one, two).getbbox()}'


def _difference(one: Any, two: Any) -> str:
    """The first place where two values differ; empty if they do not."""
    if one == two:
        return ''
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for key in [*one, *(key for key in two if key not in one)]:
            if key not in two:
                return f'{key!r} is missing'
            if key not in one:
                return f'{key!r} is too much'
            if difference := _difference(one[key], two[key]):
                return f'{key!r}: {difference}'
    if isinstance(one, list) and isinstance(two, list):
        at = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
        lengths = f'{len(one)} entries expected, {len(two)} found; ' if len(one) != len(two) else ''
        rest = [side[at] if at < len(side) else 'nothing' for side in (one, two)]
        return f'{lengths}entry {at}: {_difference(*rest)}'
    if isinstance(one, str | bytes) and type(one) is type(two):
        return _text_difference(one, two)
    return f'{_short(one)} expected, {_short(two)} found'


def _text_difference(one: Any, two: Any) -> str:
    at = next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    start = max(0, at - 20)
    texts = [_short(text[start : at + 40]) for text in (one, two)]
    return f'{texts[0]} expected, {texts[1]} found (at {at})'


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else text[:LONGEST] + '…'


def main() -> int:
    expected, actual = (Path(path).read_bytes() for path in sys.argv[1:3])
    found = list(differences(expected, actual))
    sys.stdout.write('\n'.join(found or ['same']) + '\n')
    return int(bool(found))


if __name__ == '__main__':
    sys.exit(main())
