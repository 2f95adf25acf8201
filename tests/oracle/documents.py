"""Strategies for documents: small pages, a few chapters with breaks of every kind, and what may be hard at a break.

A document is HTML text, its style sheet line by line, its body piece by piece, so that a shrunk one can be read. All
words are fixed; only what stands where is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from hypothesis import strategies as st

WORDS: Final = (
    'a', 'page', 'ends', 'here', 'and', 'what', 'is', 'left', 'over', 'goes', 'on', 'the', 'next', 'one', 'while',
    'the', 'reader', 'turns', 'it', 'slowly',
)  # fmt: skip

BASE: Final = (
    '@page { size: 80mm 60mm; margin: 9mm; @bottom-center { content: "Page " counter(page) " of " counter(pages) } }',
    'html { font: 8pt/1.3 "DejaVu Sans" } body, p, h1, h2 { margin: 0 } h1 { font-size: 11pt } h2 { font-size: 9pt }',
)

#: how a chapter begins or ends
BREAKS: Final = (
    'break-before: page', 'break-before: left', 'break-before: right', 'break-before: recto', 'break-before: verso',
    'break-after: page', 'break-after: left', 'break-after: right', 'break-after: recto', 'break-after: verso',
    'page: a; break-before: page', 'page: b', 'page: a', 'break-before: avoid', 'break-before: auto',
)  # fmt: skip

#: rules for pages, each on its own
PAGE_RULES: Final = (
    '@page :left { margin-left: 14mm; margin-right: 4mm }',
    '@page :left { margin-left: 16mm }',
    '@page :left { @top-left { content: "L" } }',
    '@page :right { @top-right { content: "R" counter(page) } background: #fee }',
    '@page :first { margin-top: 20mm; @top-left { content: "first" } }',
    '@page :blank { @top-center { content: "blank" } }',
    '@page :nth(2n) { background: #eef; @bottom-left { content: "even" } }',
    '@page :nth(3) { margin-top: 18mm }',
    '@page a { @top-left { content: "A" } }',
    '@page a { size: 60mm 70mm }',
    '@page b { margin: 12mm; @top-right { content: string(t, last) } }',
    '@page :nth(1 of a) { @top-right { content: "a1" } }',
    '@page :nth(2 of b) { margin-top: 16mm }',
    '@page { counter-increment: page 2 }',
    '@page b { counter-reset: page 7 }',
    '@page { counter-increment: page sheet; @top-left { content: counter(sheet) } }',
    '@page { @top-center { content: string(t) " " string(u, first-except) } }',
    '@page { @left-middle { content: element(head) } @right-middle { content: element(head, last) } }',
    '@page { bleed: 2mm; marks: crop }',
    '@page { @footnote { max-height: 12mm; border-top: 1px solid } }',
)

#: rules for elements, each on its own
RULES: Final = (
    'html { direction: rtl }',
    'html { counter-reset: page 4 }',
    'body { counter-reset: n } .chapter { counter-increment: n } h1::before { content: counter(n) " " }',
    'h1 { string-set: t content() }',
    '.chapter { border: 1px solid; padding: 1mm; margin-top: 3mm }',
    '.chapter { box-decoration-break: clone; background: #ffe; padding: 1mm }',
    '.chapter { position: relative }',
    '.chapter { opacity: .9 }',
    'body { border: 1px solid; padding: 1mm; margin: 2mm }',
    'p { orphans: 3; widows: 3 }',
    'p { text-align: justify; hyphens: auto }',
    'h1 { bookmark-label: "p. " counter(page) }',
    'body { bookmark-level: 1; bookmark-label: "all" }',
    'h2 { bookmark-level: 4; bookmark-state: closed }',
)

STYLES: Final = """
.fn { float: footnote }
.float { float: left; width: 20mm; background: #ddd }
.right { float: right; width: 15mm; background: #ded }
.abs { position: absolute; right: 0; top: 5mm; background: #fdd }
.fixed { position: fixed; left: 0; bottom: 0; background: #ddf }
.head { position: running(head) }
.note { position: note(note) }
.u { string-set: u content() }
.cols { columns: 2; column-gap: 2mm }
.here::after { content: counter(page) "/" counter(pages) }
.toc a { display: block }
.toc a::after { content: leader(".") target-counter(attr(href), page) }
.text a::after { content: target-text(attr(href)) " " target-counter(attr(href), n) }
.named::after { content: target-counter("#c1", page) }
.vw { width: 40vw; height: 6vh; background: #eee }
.turn { transform: rotate(5deg); width: 30mm }
.flex { display: flex; gap: 2mm }
.keep { break-inside: avoid }
.low { max-height: 8mm; overflow: hidden }
q::before { content: open-quote } q::after { content: close-quote }
.open::before { content: open-quote } .close::after { content: close-quote }
table { width: 100% } td { border: 1px solid }
img { width: 10mm }
"""
#: a picture of 8 by 8 pixels
PICTURE: Final = (
    'data:image/svg+xml,<svg xmlns=%22http://www.w3.org/2000/svg%22 width=%228%22 height=%228%22>'
    '<rect width=%225%22 height=%228%22 fill=%22teal%22/></svg>'
)


def words(count: int) -> str:
    return ' '.join(islice(cycle(WORDS), count))


#: what a chapter may hold; `{i}` is its number, `{j}` that of some chapter
PIECES: Final = (
    f'<p>{words(6)}</p>',
    f'<p>{words(70)}</p>',
    f'<p>{words(200)}</p>',
    '<h2>Under {i}</h2>',
    f'<p>noted<span class="fn">note {{i}} {words(5)}</span></p>',
    f'<p>noted<span class="fn">long {{i}} {words(110)}</span></p>',
    f'<div class="float">{words(6)}</div>',
    f'<div class="right">{words(90)}</div>',
    '<div class="abs">abs {i}</div>',
    '<div class="fixed">fixed {i}</div>',
    '<div class="head">head {i}</div>',
    f'<p>at top<span class="note">note {{i}} {words(4)}</span></p>',
    '<p><b class="u">u{i}</b></p>',
    f'<div class="cols"><p>{words(90)}</p></div>',
    '<p class="here">here </p>',
    '<div class="toc"><a href="#c0">0</a><a href="#c{j}">{j}</a></div>',
    '<div class="text"><a href="#c{j}"></a></div>',
    '<p class="named">c1 is on </p>',
    '<div class="vw"></div>',
    '<div class="turn" id="t{i}"><a href="#t0">t0</a></div>',
    '<div class="flex"><p>one</p><p>two</p></div>',
    f'<div class="keep"><p>{words(60)}</p></div>',
    f'<div class="low">{words(60)}</div>',
    '<q>said <q>again</q></q>',
    '<p class="open">open</p>',
    '<p class="close">close</p>',
    '<ol><li>one<li>two<ol><li>inner</ol></ol>',
    '<table><thead><tr><td>head {i}</thead>' + '<tr><td>row' * 12 + '</table>',
    f'<img src="{PICTURE}" alt="picture">',
    '<p id="dup">dup {i} <a href="#dup">to dup</a></p>',
    '<p><a href="#nowhere">dead</a> <a href="#c{j}">to {j}</a> <a href="http://example.org/">out</a></p>',
    '<form><input name="n{i}" value="v"><input type="checkbox" checked></form>',
    '\u2e3b \u4e2d',
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A section, with sections in it or none."""

    breaks: str
    pieces: tuple[str, ...]
    inner: tuple[Chapter, ...] = ()

    def html(self, numbers: Sequence[int]) -> str:
        own, *inner = numbers
        lines = [piece.replace('{i}', str(own)) for piece in self.pieces]
        for chapter, number in zip(self.inner, inner, strict=True):
            lines.append(chapter.html([number]))
        style = f' style="{self.breaks}"' if self.breaks else ''
        return (
            f'<section class="chapter" id="c{own}"{style}><h1>Chapter {own}</h1>\n' + '\n'.join(lines) + '\n</section>'
        )


def pieces() -> st.SearchStrategy[tuple[str, ...]]:
    piece = st.builds(lambda text, other: text.replace('{j}', str(other)), st.sampled_from(PIECES), st.integers(0, 3))
    return st.lists(piece, max_size=3).map(tuple)


def chapters(*, nested: bool) -> st.SearchStrategy[Chapter]:
    inner = st.lists(chapters(nested=False), max_size=2).map(tuple) if nested else st.just(())
    return st.builds(Chapter, breaks=st.sampled_from(BREAKS), pieces=pieces(), inner=inner)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """HTML of some two to fifteen pages."""
    body = draw(st.lists(chapters(nested=True), min_size=2, max_size=4))
    rules = draw(st.lists(st.sampled_from([*PAGE_RULES, *RULES]), max_size=5, unique=True))
    wrapped = draw(st.booleans())
    sections, number = [], 0
    for chapter in body:
        count = 1 + len(chapter.inner)
        sections.append(chapter.html(range(number, number + count)))
        number += count
    if wrapped:
        sections = ['<main>', *sections, '</main>', '<footer>end</footer>']
    style = '\n'.join([*BASE, *rules]) + STYLES
    return '<!doctype html><html lang="en"><title>Made</title><style>\n' + style + '</style>\n' + '\n'.join(sections)
