"""A database that falls silent, and the reasons that a pool without connections gives."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from psycopg import Connection, OperationalError

import schema
from fanfold.stack.ports import free_ports
from schema.pool import Unanswered, without_password

Conn = Connection[Any]


class SilenceableServer:
    """Passes bytes between its clients and a server, until it falls silent: connections stay, nothing arrives."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or '127.0.0.1', parts.port or 5432)
        self._listener = socket.create_server(('127.0.0.1', 0))
        self._sockets = [self._listener]
        self._speaks = threading.Event()
        self._speaks.set()
        host = f'127.0.0.1:{self._listener.getsockname()[1]}'
        self.url = urlunsplit(parts._replace(netloc=f'{parts.netloc.rpartition("@")[0]}@{host}'))
        threading.Thread(target=self._accept, daemon=True).start()

    def fall_silent(self) -> None:
        self._speaks.clear()

    def close(self) -> None:
        self._speaks.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                self._speaks.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def server(database_url: str) -> Iterator[SilenceableServer]:
    server = SilenceableServer(database_url)
    yield server
    server.close()


def test_a_server_that_is_gone_without_a_word_is_noticed_by_the_kernel(pool: schema.Pool) -> None:
    with pool.connection() as conn:
        said = conn.info.get_parameters()

    assert {name: said.get(name) for name in said if name.startswith(('keepalives', 'tcp'))} == {
        'keepalives': '1',
        'keepalives_idle': '5',
        'keepalives_interval': '2',
        'keepalives_count': '3',
        'tcp_user_timeout': '10000',
    }


def test_the_server_gives_up_on_a_statement_after_a_minute(pool: schema.Pool) -> None:
    with pool.connection() as conn:
        assert conn.execute('SHOW statement_timeout').fetchone() == ('1min',)


def test_a_statement_that_is_never_answered_is_the_database_being_away(
    server: SilenceableServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silenced(conn: Conn) -> None:
        monkeypatch.setattr(conn, 'patience', 0.3)
        server.fall_silent()
        schema.ping(conn)

    with schema.open_pool(server.url) as pool:
        with pytest.raises(schema.Unavailable, match=r'not answered for 0\.3 sec'):
            schema.transact(pool, silenced)
        server.close()


def test_a_connection_that_fell_silent_in_the_pool_does_not_hold_up_the_next_caller(
    server: SilenceableServer,
) -> None:
    with schema.open_pool(server.url, timeout=0.5) as pool:
        schema.transact(pool, schema.ping)
        server.fall_silent()

        with pytest.raises(schema.Unavailable, match=r"couldn't get a connection after 0\.50 sec: the server has not"):
            schema.transact(pool, schema.ping)
        server.close()


def test_a_connection_waits_patiently_after_its_check(pool: schema.Pool) -> None:
    with pool.connection() as conn:
        assert conn.patience == 65


def reason(url: str) -> str:
    with schema.open_pool(url, timeout=0.5) as pool, pytest.raises(schema.Unavailable) as caught:
        schema.transact(pool, schema.ping)
    return str(caught.value)


def test_nobody_listening_is_given_as_the_reason() -> None:
    said = reason(f'postgresql://nobody:hush@127.0.0.1:{free_ports(1)[0]}/nothing')

    assert 'Connection refused' in said
    assert 'hush' not in said


def test_a_missing_database_is_given_as_the_reason(database_url: str) -> None:
    said = reason(urlunsplit(urlsplit(database_url)._replace(path='/no_such_database')))

    assert 'database "no_such_database" does not exist' in said
    assert str(urlsplit(database_url).password) not in said


def test_a_reason_is_forgotten_once_the_database_is_back(database_url: str) -> None:
    with schema.open_pool(database_url, max_size=1, timeout=5) as pool:
        pool.trouble.last = OperationalError('of old')
        with pool.connection(), pytest.raises(schema.Unavailable) as caught, pool.connection(timeout=0.1):
            pass

    assert re.fullmatch(r"couldn't get a connection after 0\.10 sec", str(caught.value)), 'it is only exhausted'


@pytest.mark.parametrize(
    'url',
    [
        'postgresql//fanfold:hush@127.0.0.1/x',
        'postgresql://fanfold:a@hush@127.0.0.1/x',
        'postgresql://fanfold:a%hush@127.0.0.1:1/x',
        'postgresql://fanfold:a/hush@127.0.0.1:1/x',
    ],
)
def test_a_malformed_url_does_not_give_the_password_away(url: str) -> None:
    said = reason(url)

    assert 'hush' not in said
    assert 'cannot be read' in said or 'percent-encoded' in said


def test_the_password_is_masked_wherever_it_is_written() -> None:
    error = OperationalError('tried hush,\n and hush again')

    assert without_password(error, 'postgresql://u:hu%73h@h/d') == 'tried ***, and *** again'
    assert without_password(error, 'postgresql://h/d?password=hush') == 'tried ***, and *** again'
    assert without_password(error, 'host=h password=hush') == 'tried ***, and *** again'
    assert without_password(Unanswered('no'), 'postgresql://u@h/d') == 'no'
