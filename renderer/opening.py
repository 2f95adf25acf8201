"""Opening the one HTML document of a job in its press: the same HTML, files, options and metadata as painting whole."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from weasyprint import HTML

from renderer import weasy
from renderer.archive import Archive
from renderer.fetch import BundleFetcher
from renderer.paint import dress, options_of, read_html
from renderer.prepare import Opened
from renderer.sources import HtmlDocument, JobSpec


def open_job(given: dict[str, Any]) -> Opened:
    """Open the document of the job `spec` whose input is the file `archive`. Raises Refusal."""
    archive = Archive(Path(given['archive']))
    job = JobSpec.from_json(given['spec'])
    (document,) = job.documents
    assert isinstance(document, HtmlDocument)
    fetcher = BundleFetcher(archive)
    options = options_of(job, archive)
    zoom, media_type = options.pop('zoom', 1), options.pop('media_type', 'print')
    html = HTML(
        string=read_html(document, archive), base_url=document.base_url, url_fetcher=fetcher, media_type=media_type
    )
    return Opened(
        html=html,
        options=weasy.known_options(options),
        zoom=zoom,
        dress=partial(dress, given=job.metadata),
        reopen=archive.reopen,
        refusals=fetcher.refusals,
    )
