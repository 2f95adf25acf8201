"""A document in windows, whatever is killed between layout and painting."""

from __future__ import annotations

import os
import signal

import pytest
from weasyprint import HTML

from renderer.numbering import first_entries, number
from renderer.parallel import Step
from runtime.errors import Refusal
from tests.oracle.same import assert_same
from tests.renderer.long_document import CHAPTERS, html, pressed, rendered, rendering
from worker.requests import Limits


@pytest.fixture(scope='module')
def serial() -> bytes:
    return HTML(string=html()).write_pdf()


@pytest.fixture
def press(tmp_path):
    with pressed(tmp_path / 'press', html()) as press:
        yield press


def test_windows_are_what_weasyprint_writes(press, tmp_path, serial):
    drawing = rendering(press)
    assert_same(serial, rendered(drawing, tmp_path))
    assert drawing.rounds == 2


def test_progress_is_told_for_every_window_in_every_round(press, tmp_path):
    told: list[Step] = []
    rendered(rendering(press, progress=told.append), tmp_path)
    windows = CHAPTERS + 1
    assert [(step.step, step.round, step.done) for step in told] == [
        (name, turn, done)
        for name, turn in (('layout', 1), ('layout', 2), ('paint', 2))
        for done in range(1, windows + 1)
    ]
    assert told[-1].pages == 1 + 2 * CHAPTERS


def test_a_parked_child_that_is_killed_is_made_up_for(press, tmp_path, serial):
    drawing = rendering(press, progress=kill_when(lambda: drawing.pid_of(2)))
    assert_same(serial, rendered(drawing, tmp_path))


def test_a_press_that_is_killed_is_made_up_for(press, tmp_path, serial):
    drawing = rendering(press, progress=kill_when(lambda: parent_of(drawing.pid_of(1))))
    assert_same(serial, rendered(drawing, tmp_path))


def kill_when(find):
    """Kills a process once, when all windows are settled and parked."""
    killed = []

    def progress(step: Step) -> None:
        if step.round == 2 and step.step == 'layout' and step.done == step.total and not killed:
            killed.append(find())
            os.kill(killed[0], signal.SIGKILL)

    return progress


def parent_of(pid: int) -> int:
    with open(f'/proc/{pid}/stat') as file:
        return int(file.read().rpartition(')')[2].split()[1])


def test_a_window_over_its_limit_is_named_by_its_pages_and_where_it_begins(tmp_path):
    endless = (
        '<section id="slow"><p style="columns: 3">' + '<span style="float: left">x </span>' * 60_000 + '</section>'
    )
    limits = Limits(memory_bytes=2**31, cpu_seconds=60, wall_seconds=2)
    with pressed(tmp_path / 'press', html(more=endless), limits) as press:
        drawing = rendering(press)
        with pytest.raises(Refusal, match=r"begins at '#slow': it took longer than 2 s"):
            drawing.render(tmp_path)


@pytest.mark.parametrize(
    ('preparation', 'why'),
    [
        (Limits(memory_bytes=2**31, cpu_seconds=60, wall_seconds=0.3), 'longer than 0.3 s to prepare'),
        (Limits(memory_bytes=2**24, cpu_seconds=60, wall_seconds=60), 'more than 16 MiB of memory to be prepared'),
    ],
)
def test_a_document_that_takes_too_much_to_prepare_is_refused(tmp_path, preparation, why):
    text = html(more='<table>' + '<tr><td>x' * 5_000 + '</table>')
    with (
        pressed(tmp_path / 'press', text, preparation=preparation) as press,
        pytest.raises(Refusal, match=why),
    ):
        press.prepared()


def test_a_window_whose_child_died_is_laid_out_by_another(press):
    prepared = press.prepared()
    entries = first_entries(prepared.first, prepared.seams)
    window = press.window(1, prepared.seams)
    first = window.lay_out(entries[1], furnish=False).report
    before = window.pid
    os.kill(before, signal.SIGSTOP)
    window.end()
    again = window.lay_out(entries[1], furnish=False).report
    assert again == first
    assert window.pid != before


def test_an_ended_window_is_laid_out_again_before_it_is_painted(press, tmp_path):
    prepared = press.prepared()
    entries = first_entries(prepared.first, prepared.seams)
    window = press.window(0, prepared.seams)
    report = window.lay_out(entries[0], furnish=True).report
    window.end()
    painted = window.paint(entries[0], tmp_path / '0', place=0, places=1, anchors=frozenset())
    assert painted.pages == report.pages


def test_rounds_of_a_document_with_a_contents_end_at_the_second(press):
    prepared = press.prepared()
    entries = first_entries(prepared.first, prepared.seams)
    windows = {place: press.window(place, prepared.seams) for place in entries}
    reports = {place: windows[place].lay_out(entries[place], furnish=False).report for place in entries}
    found = number(entries, reports)
    assert not found.settled
    again = {place: windows[place].lay_out(found.entries[place], furnish=True).report for place in entries}
    assert number(found.entries, again).settled
    assert all(report.laid_out == 0 for place, report in again.items() if place)
