"""Making WeasyPrint faster in this process without changing what it does.

Functions whose result depends on their arguments alone remember it; a property that a document says nothing
about takes its initial or inherited value the short way.
"""

from __future__ import annotations

import functools
import gc
from typing import Any, Final

from weasyprint import css
from weasyprint.css import ComputedStyle, computed_values, functions, tokens
from weasyprint.css.properties import INHERITED, INITIAL_NOT_COMPUTED, INITIAL_VALUES, Dimension
from weasyprint.layout import inline, percent, preferred
from weasyprint.text import line_break

from renderer.weasy.styles import LazyStyleFor

#: allocations before a collection of each generation: rendering makes many objects and little garbage
GC_THRESHOLDS: Final = (100_000, 50, 100)
#: results kept of each function that is remembered
REMEMBERED: Final = 4_096


def tune() -> None:
    """Tune this process, for good."""
    gc.set_threshold(*GC_THRESHOLDS)
    for module in (css, computed_values, functions, tokens, inline, percent, preferred):
        module.check_math = _check_math
    for name, function in computed_values.PHYSICAL_FUNCTIONS.items():
        computed_values.PHYSICAL_FUNCTIONS[name] = functools.cache(function)
    line_break.font_features = functools.lru_cache(REMEMBERED)(line_break.font_features)
    line_break.get_font_description = _font_description
    ComputedStyle.__missing__ = _missing
    css.StyleFor = LazyStyleFor


def _check_math(value: Any) -> Any:
    """functions.check_math, but quick for what cannot be a function."""
    return None if type(value) in _NEVER_MATH else _CHECK_MATH(value)


def _font_description(style: Any) -> Any:
    """fonts.get_font_description, which reads these properties and nothing else; Pango copies what it is given."""
    return _described(
        tuple(style['font_family']), style['font_style'], style['font_stretch'], style['font_weight'],
        style['font_size'], style['font_variant_caps'], style['font_variation_settings'],
    )  # fmt: skip


@functools.lru_cache(REMEMBERED)
def _described(*values: Any) -> Any:
    names = ('font_family', 'font_style', 'font_stretch', 'font_weight', 'font_size', 'font_variant_caps',
             'font_variation_settings')  # fmt: skip
    return _GET_FONT_DESCRIPTION(dict(zip(names, values, strict=True)))


def _missing(style: Any, key: str) -> Any:
    """ComputedStyle.__missing__, quick for properties that the cascade says nothing about."""
    cascaded = style.cascaded
    if key not in cascaded and (key not in computed_values.PHYSICAL_FUNCTIONS or _LOGICAL.isdisjoint(cascaded)):
        if key in _INITIAL:
            value = style[key] = _INITIAL[key]
            return value
        if key in _INHERITED and style.parent_style is not None:
            value = style.parent_style[key]
            if not _check_math(value):  # what is left to be resolved is resolved the long way
                style[key] = value
                return value
    return _MISSING(style, key)


def _is_plain(key: str) -> bool:
    """Whether the initial or inherited value of a property is its computed value."""
    special = {'float', 'display', 'position', 'page'}
    return key not in special | INITIAL_NOT_COMPUTED and not key.startswith('text_decoration_')


_CHECK_MATH: Final = functions.check_math
_GET_FONT_DESCRIPTION: Final = line_break.get_font_description
_MISSING: Final = ComputedStyle.__missing__
_NEVER_MATH: Final = frozenset({str, int, float, bool, type(None), Dimension})
_INITIAL: Final = {key: value for key, value in INITIAL_VALUES.items() if key not in INHERITED and _is_plain(key)}
_INHERITED: Final = frozenset(key for key in INITIAL_VALUES if key in INHERITED and _is_plain(key))
#: the names under which a style may give a physical property: `margin_inline_start` for `margin_left`
_LOGICAL: Final = frozenset(
    function(block='ttb', inline=direction)
    for function in computed_values.PHYSICAL_FUNCTIONS.values()
    for direction in ('ltr', 'rtl')
)
