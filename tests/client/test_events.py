"""Reading an event stream."""

from __future__ import annotations

import pytest

from fanfold.client.events import ServerEvent, read_events, split_lines


def events_of(stream: str):
    return list(read_events(split_lines([stream.encode()])))


def test_an_event_has_its_id_name_and_data():
    assert events_of('id: 7\nevent: job\ndata: {"a": 1}\n\n') == [ServerEvent(id='7', event='job', data='{"a": 1}')]


def test_lines_of_data_are_joined_and_the_id_stays():
    first, second = events_of('id: 7\r\ndata: a\r\ndata: b\r\n\r\ndata:c\r\n\r\n')
    assert first == ServerEvent(id='7', event='message', data='a\nb')
    assert second == ServerEvent(id='7', event='message', data='c')


def test_a_comment_shows_that_the_peer_lives():
    assert events_of(': ping\n\n') == [None]


def test_what_is_cut_off_is_no_event():
    assert events_of('data: whole\n\ndata: hal') == [ServerEvent(id=None, event='message', data='whole')]


def test_other_line_separators_belong_to_the_data():
    (event,) = events_of('data: "a\u2028b\x85c"\n\n')
    assert event.data == '"a\u2028b\x85c"'


@pytest.mark.parametrize('size', [1, 2, 3, 7])
def test_pieces_of_any_size_make_the_same_events(size):
    stream = 'id: 1\r\ndata: grün\r\n\r\n'.encode()
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert list(read_events(split_lines(pieces))) == [ServerEvent(id='1', event='message', data='grün')]
