"""What follows when a long document was planned, or its windows were laid out. Pure: values in, what to do next out.

    plan → layout → (layout …) → paint, in windows; or → paint, whole

The first round lays each window out from what its seam lets expect. Then the reports are added up
(renderer.numbering): windows that began from something else, or lack their margins, are laid out again from what is
now known. Once all agree they are painted. A document that cannot be laid out like this is rendered whole, and the
plan that clients see says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from renderer.numbering import MOST_ROUNDS, Numbering, first_entries, number
from renderer.seams import Seam
from renderer.state import EntryState, PageStart, WindowReport

Json = dict[str, Any]

WHOLE: Final[Json] = {'first_item': 0, 'item_count': 1}
NOT_SETTLED: Final = f'its pages did not come to rest in {MOST_ROUNDS} rounds of numbering'
RAN_ON: Final = 'what spills over its page breaks made one window of it'
FIRST_LOOK: Final = 'laid out from what each seam lets expect'

#: what of an entry state may turn out otherwise than expected, as it is told
EXPECTED: Final[Mapping[str, Callable[[EntryState], Any]]] = {
    'page numbers': lambda entry: (entry.page_index, entry.start.counters, entry.start.scopes),
    'left and right pages': lambda entry: entry.start.right_page,
    'page names': lambda entry: (entry.start.page_name, entry.start.groups),
    'where it begins': lambda entry: (entry.start.resume_at, entry.start.page_break, entry.start.quote_depth),
    'named strings': lambda entry: entry.strings,
    'running elements': lambda entry: entry.running,
    'notes': lambda entry: entry.registered,
    'page numbers that the text names': lambda entry: entry.targets,
    'fixed boxes': lambda entry: entry.fixed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """The latest layout of a window: the part's spec, and its result."""

    window: int
    spec: Json
    result: Json

    @property
    def report(self) -> WindowReport | None:
        """None: it could not be laid out from what it was given."""
        found = self.result.get('report')
        return None if found is None else WindowReport.from_json(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The next batch: specs by part index, and the plan as clients see it from then on."""

    kind: Literal['layout', 'paint']
    specs: Mapping[int, Json]
    plan: Json


def after_planning(planned: Json) -> Following:
    """Layout of all windows, or painting of all there is. `planned` is the result of the plan."""
    if not planned.get('seams'):
        plan = {'windows': 1, 'seams': [], 'rounds': [], 'whole_because': planned['whole_because']}
        return Following(kind='paint', specs=dict(enumerate(planned['parts'])), plan=plan)
    seams = [Seam.from_json(seam) for seam in planned['seams']]
    entries = first_entries(PageStart.from_json(planned['first']), seams)
    specs = {
        window: {
            'window': window, 'round': 1, 'label': label_of(window, seams), 'furnish': False, 'entry': entry.to_json(),
        }
        for window, entry in entries.items()
    }  # fmt: skip
    shown = [{'label': seam.label, 'break': seam.page_break, 'page': seam.page_name} for seam in seams]
    rounds = [{'round': 1, 'windows': len(entries), 'why': FIRST_LOOK}]
    plan = {'windows': len(entries), 'seams': shown, 'rounds': rounds, 'whole_because': None}
    return Following(kind='layout', specs=specs, plan=plan)


def after_layout(plan: Json, laid_out: Sequence[LaidOut]) -> Following:
    """Another round, painting, or rendering whole. `plan` is what clients saw so far."""
    layouts = {layout.window: layout for layout in laid_out}
    if given_up := next(filter(None, map(_given_up, laid_out)), None):
        return _whole(plan, given_up)
    entries = {window: EntryState.from_json(layout.spec['entry']) for window, layout in layouts.items()}
    reports = {window: report for window, layout in layouts.items() if (report := layout.report) is not None}
    numbering = number(entries, reports)
    if numbering.settled:
        return _painting(plan, numbering, layouts, reports)
    rounds = max(layout.spec['round'] for layout in laid_out)
    if rounds > MOST_ROUNDS:
        return _whole(plan, NOT_SETTLED)
    why = '; '.join(_reasons(numbering, entries, reports))
    again = {'round': rounds + 1, 'windows': len(numbering.to_do), 'why': why}
    return Following(
        kind='layout',
        specs={window: _again(layouts[window], numbering.entries[window], rounds + 1) for window in numbering.to_do},
        plan={**plan, 'pages': numbering.pages, 'rounds': [*plan['rounds'], again]},
    )


def label_of(window: int, seams: Sequence[Seam]) -> str:
    """How a person finds the place where a window begins."""
    return seams[window - 1].label if window else 'the beginning'


def _given_up(layout: LaidOut) -> str | None:
    """Why the document is not to be split, if this window could not be laid out from what is certain, or twice."""
    problem = layout.result.get('failed')
    if problem is None or (layout.window > 0 and not layout.spec.get('failed_before')):
        return None
    return f'the part that begins at {layout.spec["label"]!r}: {problem["detail"]}'


def _again(layout: LaidOut, entry: EntryState, round_no: int) -> Json:
    spec = {name: layout.spec[name] for name in ('window', 'label')}
    more: Json = {'failed_before': True} if 'failed' in layout.result or layout.spec.get('failed_before') else {}
    if 'pages' in layout.result:
        more['pages'] = layout.result['pages']
    host = layout.result.get('host')
    return {**spec, **more, 'round': round_no, 'furnish': True, 'entry': entry.to_json(), 'host': host}


def _painting(
    plan: Json, numbering: Numbering, layouts: Mapping[int, LaidOut], reports: Mapping[int, WindowReport]
) -> Following:
    windows = list(numbering.entries)
    anchors = list(dict.fromkeys(name for window in windows for name in reports[window].page_anchors or ()))
    specs = {
        place: {
            'window': window,
            'place': place,
            'places': len(windows),
            'label': layouts[window].spec['label'],
            'pages': reports[window].pages,
            'entry': numbering.entries[window].to_json(),
            'anchors': anchors,
            'host': layouts[window].result.get('host'),
        }
        for place, window in enumerate(windows)
    }
    seams = [plan['seams'][window - 1] for window in windows if window]
    because = RAN_ON if len(windows) == 1 else None
    changes = {'windows': len(windows), 'pages': numbering.pages, 'seams': seams, 'whole_because': because}
    return Following(kind='paint', specs=specs, plan={**plan, **changes})


def _whole(plan: Json, because: str) -> Following:
    kept = {name: value for name, value in plan.items() if name != 'pages'}
    return Following(kind='paint', specs={0: WHOLE}, plan={**kept, 'windows': 1, 'seams': [], 'whole_because': because})


def _reasons(
    numbering: Numbering, entries: Mapping[int, EntryState], reports: Mapping[int, WindowReport]
) -> Iterator[str]:
    """Why windows are laid out again, in words."""
    to_do = numbering.to_do
    if failed := sum(window not in reports for window in to_do):
        yield f'{_counted(failed)} could not be laid out from what was expected'
    if any(window in reports and reports[window].page_anchors is None for window in to_do):
        yield 'margins are laid out now that all pages are known'
    changed = [
        name
        for name, part in EXPECTED.items()
        if any(part(entries[window]) != part(numbering.entries[window]) for window in to_do)
    ]
    if changed:
        yield f'other than expected: {", ".join(changed)}'


def _counted(windows: int) -> str:
    return '1 window' if windows == 1 else f'{windows} windows'
