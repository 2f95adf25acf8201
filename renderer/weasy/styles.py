"""Styles of pseudo-elements, computed for those that are asked for.

WeasyPrint's own style sheet has six rules for pseudo-elements of every element (markers, calls of footnotes and notes),
so it computes at least six styles more for each element, nearly all for nothing. In a book of 1,700 pages that is
a third of the memory before layout begins.
"""

from __future__ import annotations

from typing import Any

from weasyprint.css import StyleFor


class LazyStyleFor(StyleFor):  # type: ignore[misc]  # WeasyPrint is not typed
    """A StyleFor whose pseudo-elements wait until their style is wanted. What names an anchor does not wait."""

    _cascaded_styles: dict[Any, Any]
    _computed_styles: dict[Any, Any]

    def __init__(self, html: Any, *arguments: Any) -> None:
        self._root = html.etree_element
        self._base_url = html.base_url
        #: (element, pseudo-element) to what the rules say of it; equal ones are one object
        self._waiting: dict[Any, Any] | None = {}
        self._known: dict[Any, Any] = {}
        super().__init__(html, *arguments)
        self._known.clear()
        self._all_waiting = self._waiting or {}
        self._waiting = None

    def set_computed_styles(self, element: Any, parent: Any, root: Any = None, pseudo_type: Any = None,
                            base_url: Any = None, target_collector: Any = None) -> None:  # fmt: skip
        """As the original; in the constructor, put off for pseudo-elements."""
        if self._waiting is not None and pseudo_type:
            declared = self._cascaded_styles[element, pseudo_type]
            if 'anchor' not in declared:
                key = tuple((name, id(value), weight) for name, (value, weight) in declared.items())
                self._waiting[element, pseudo_type] = self._known.setdefault(key, declared)
                return
        super().set_computed_styles(element, parent, root, pseudo_type, base_url, target_collector)

    def __call__(self, element: Any, pseudo_type: Any = None) -> Any:
        if pseudo_type and (declared := self._all_waiting.pop((element, pseudo_type), None)) is not None:
            others, self._cascaded_styles = self._cascaded_styles, {(element, pseudo_type): declared}
            try:
                self.set_computed_styles(
                    element, element, root=self._root, pseudo_type=pseudo_type, base_url=self._base_url
                )
            finally:
                self._cascaded_styles = others
        return super().__call__(element, pseudo_type)

    def forget_elements(self) -> None:
        """To be called when all boxes are made: they have their styles, and pages inherit from the root's."""
        self._all_waiting.clear()
        self._computed_styles = {
            (element, pseudo): style
            for (element, pseudo), style in self._computed_styles.items()
            if element is self._root and pseudo is None
        }
