"""The options that the API takes, held against WeasyPrint itself."""

from __future__ import annotations

import typing

from weasyprint import DEFAULT_OPTIONS
from weasyprint.pdf import VARIANTS

from api.options import Options, PdfVariant

#: what the service decides itself
OURS = {'pdf_identifier', 'xmp_metadata', 'cache'}
#: arguments of HTML and write_pdf that are no entries of DEFAULT_OPTIONS, and what is not WeasyPrint's at all
BESIDE = {'media_type', 'zoom', 'parts', 'document_bookmarks', 'metadata'}


def test_every_option_of_weasyprint_is_taken_or_left_out_on_purpose() -> None:
    assert set(Options.model_fields) - BESIDE == set(DEFAULT_OPTIONS) - OURS


def test_pdf_variants_are_those_of_weasyprint() -> None:
    assert list(typing.get_args(PdfVariant)) == list(VARIANTS)


def test_only_given_options_go_to_weasyprint() -> None:
    assert Options().rendering() == {}
    assert Options(pdf_tags=False, parts=3, document_bookmarks=True).rendering() == {'pdf_tags': False}
