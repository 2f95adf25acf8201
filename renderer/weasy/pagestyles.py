"""Styles of pages: computed once for all pages that the same `@page` rules match.

WeasyPrint computes them anew for each page, and looks through those of all pages before it each time. Only
the first page keeps styles of its own: they are read before its size is known, and viewport units with them.
"""

from __future__ import annotations

from typing import Any

#: properties of `@page` that do not move what is on the page, or whose effect its measures tell
_WITHOUT_EFFECT_INSIDE = frozenset(
    {
        'margin_top', 'margin_right', 'margin_bottom', 'margin_left',
        'background_attachment', 'background_clip', 'background_color', 'background_image', 'background_origin',
        'background_position', 'background_repeat', 'background_size',
        'bleed_top', 'bleed_right', 'bleed_bottom', 'bleed_left', 'marks',
        'counter_increment', 'counter_reset', 'counter_set', 'overflow',
    }
)  # fmt: skip
#: pseudo-elements of a page that are laid out with its content
_INSIDE = ('@footnote', '@note-area')


class PageStyles:
    """The styles of the pages of one document."""

    def __init__(self, html: Any, style_for: Any) -> None:
        self._root = html.etree_element
        self._base_url = html.base_url
        self._style_for = style_for
        self._shared: dict[Any, dict[str | None, Any]] = {}
        self._pseudos: dict[Any, dict[str | None, Any]] = {}

    def apply(self, page_type: Any, _html: Any = None, _style_for: Any = None) -> None:
        """In place of weasyprint.layout.page.set_page_type_computed_styles."""
        if page_type in self._pseudos:
            return
        declared = self._declarations(page_type)
        key = tuple((pseudo, tuple((name, id(value)) for name, (value, _) in style.items()))
                    for (_, pseudo), style in declared.items())  # fmt: skip
        shared = None if page_type.index == 0 else self._shared.get(key)
        if shared is None:
            shared = self._computed(page_type, declared)
            if page_type.index != 0:
                self._shared[key] = shared
        self._pseudos[page_type] = shared
        computed = self._style_for.get_computed_styles()
        for pseudo, style in shared.items():
            computed[page_type, pseudo] = style

    def _declarations(self, page_type: Any) -> dict[Any, Any]:
        """What the `@page` rules say of this page and its pseudo-elements."""
        style_for = self._style_for
        others, style_for._cascaded_styles = style_for._cascaded_styles, {}
        try:
            style_for.add_page_declarations(page_type)
            found: dict[Any, Any] = style_for._cascaded_styles
        finally:
            style_for._cascaded_styles = others
        return found

    def _computed(self, page_type: Any, declared: dict[Any, Any]) -> dict[str | None, Any]:
        style_for = self._style_for
        others, style_for._cascaded_styles = style_for._cascaded_styles, declared
        try:
            style_for.set_computed_styles(page_type, root=self._root, parent=self._root, base_url=self._base_url)
            for _, pseudo in declared:
                if pseudo:
                    style_for.set_computed_styles(
                        page_type, pseudo_type=pseudo, root=self._root, parent=page_type, base_url=self._base_url
                    )
        finally:
            style_for._cascaded_styles = others
        computed = style_for.get_computed_styles()
        pseudos = [None, *(pseudo for _, pseudo in declared if pseudo)]
        return {pseudo: computed[page_type, pseudo] for pseudo in pseudos}

    def same_inside(self, one: Any, other: Any) -> bool:
        """Whether pages of these two types give their content the same style; their measures are another matter."""
        first, second = self._pseudos[one], self._pseudos[other]
        if first is second:
            return True
        if any(not _alike(first.get(pseudo), second.get(pseudo), frozenset()) for pseudo in _INSIDE):
            return False
        return _alike(first[None], second[None], _WITHOUT_EFFECT_INSIDE)


def _alike(one: Any, other: Any, ignored: frozenset[str]) -> bool:
    if one is None or other is None:
        return one is other
    names = (set(one.cascaded) | set(other.cascaded)) - ignored
    return all(one[name] == other[name] for name in names)
