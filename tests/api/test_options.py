"""The options that the API takes, held against WeasyPrint itself."""

from __future__ import annotations

import typing

import pytest
from pydantic import ValidationError
from weasyprint import DEFAULT_OPTIONS
from weasyprint.pdf import VARIANTS

from api.options import Options, PdfVariant, Permission
from assembler.finishing import PERMISSIONS

#: what the service decides itself
OURS = {'pdf_identifier', 'xmp_metadata', 'cache'}
#: arguments of HTML and write_pdf that are no entries of DEFAULT_OPTIONS, and what is not WeasyPrint's at all
BESIDE = {'media_type', 'zoom', 'parts', 'document_bookmarks', 'linearize', 'encrypt', 'metadata'}


def test_every_option_of_weasyprint_is_taken_or_left_out_on_purpose() -> None:
    assert set(Options.model_fields) - BESIDE == set(DEFAULT_OPTIONS) - OURS


def test_pdf_variants_are_those_of_weasyprint() -> None:
    assert list(typing.get_args(PdfVariant)) == list(VARIANTS)


def test_only_given_options_go_to_weasyprint() -> None:
    assert Options().rendering() == {}
    assert Options(pdf_tags=False, parts=3, document_bookmarks=True).rendering() == {'pdf_tags': False}


def test_what_is_done_with_the_finished_pdf_does_not_go_to_weasyprint() -> None:
    options = Options.model_validate({'linearize': True, 'encrypt': {'owner_password': 'o', 'permissions': ['print']}})
    assert options.rendering() == {}
    assert options.finishing() == {
        'linearize': True,
        'encrypt': {'owner_password': 'o', 'user_password': '', 'permissions': ['print']},
    }
    assert Options().finishing() == {}


def test_every_permission_is_one_that_finishing_knows() -> None:
    assert list(typing.get_args(Permission)) == list(PERMISSIONS)


def test_a_pdf_for_archives_cannot_be_encrypted() -> None:
    with pytest.raises(ValidationError, match='pdf/a-3b does not allow `encrypt`'):
        Options.model_validate({'pdf_variant': 'pdf/a-3b', 'encrypt': {'owner_password': 'o'}})
