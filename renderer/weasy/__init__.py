"""All that Fanfold takes from inside WeasyPrint, in one place: exactly version 70.0, checked when it is loaded.

A Typesetter renders the documents of one part. It promises the pages that
`HTML(string=…, base_url=…).write_pdf(**options)` gives, and does less for them:

- documents whose stylesheets are the same share one FontConfiguration and one parsed cascade (Styles). The
  key is what the documents' `style` and `link` elements say, so a template that varies them gets its own;
- documents bound into one bundle share fonts, images and resources; fonts are embedded at assembly, as the union of the
  glyphs that are used. Glyph ids are retained, so that no content stream changes;
- a tuned process (`tune`) remembers what pure functions gave and collects garbage between documents.
"""

from renderer.weasy.versions import check_versions, font_digests, system_fonts, versions

check_versions()  # before anything below reaches inside

from renderer.weasy.painting import Painted, PlaceInDocument, Volume, paint_window, version_of  # noqa: E402
from renderer.weasy.prepared import PreparedDocument  # noqa: E402
from renderer.weasy.tuning import tune  # noqa: E402
from renderer.weasy.typesetting import Typesetter, known_options, warm  # noqa: E402
from renderer.weasy.window import CannotSplitError, Window  # noqa: E402

__all__ = [
    'CannotSplitError',
    'Painted',
    'PlaceInDocument',
    'PreparedDocument',
    'Typesetter',
    'Volume',
    'Window',
    'check_versions',
    'font_digests',
    'known_options',
    'paint_window',
    'system_fonts',
    'tune',
    'version_of',
    'versions',
    'warm',
]
