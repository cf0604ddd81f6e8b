from __future__ import annotations

import csv
import http.client
import io
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import InputError
from streams.find.answer import Answer, Candidate
from streams.find.redirect_maps import FORMATS, RedirectMap, build_redirect_map, flatten_chains, render

A, B, C, D = (f"https://a.example/{n}" for n in "abcd")
LINES = {name: 2 if name == "nginx" else 1 for name in FORMATS}  # per redirect
HOSTILE = "https://a.example/x\n\"; return 302 https://evil.example;#'$host {} \\ ${ENV} 301\r\n/y"


def test_chains_are_followed_to_their_end() -> None:
    result = flatten_chains({A: (B, 0.9), B: (C, 0.5)})
    assert result.moves == {A: (C, pytest.approx(0.45)), B: (C, 0.5)}
    assert not result.dropped


def test_loops_and_all_urls_that_lead_into_them_are_dropped() -> None:
    result = flatten_chains({A: (B, 1.0), B: (C, 1.0), C: (B, 1.0), D: ("https://a.example/e", 1.0)})
    assert set(result.dropped) == {A, B, C}
    assert list(result.moves) == [D]


def test_a_redirect_from_http_to_https_of_one_page_is_a_loop() -> None:
    assert set(flatten_chains({"http://a.example/a": (A, 1.0)}).dropped) == {"http://a.example/a"}


def test_only_sure_moves_are_redirected() -> None:
    def answer(url: str, status: str, confidence: float) -> Answer:
        return Answer(
            url=url,
            status=status,
            last_seen=None,
            document=None,
            candidates=[
                Candidate(
                    url=D,
                    confidence=confidence,
                    resemblance=None,
                    containment=None,
                    first_seen=None,
                    last_seen=None,
                    evidence=[],
                )
            ],
        )

    answers = [answer(A, "moved", 0.8), answer(B, "moved", 0.4), answer(C, "gone", 0.3)]
    assert list(build_redirect_map(answers, 0.5).moves) == [A]
    assert list(build_redirect_map(answers, 0.9).moves) == []


def test_less_sure_moves_are_redirected_where_that_is_asked_for() -> None:
    def answer(url: str, status: str, confidence: float) -> Answer:
        return Answer(
            url=url,
            status=status,
            last_seen=None,
            document=None,
            candidates=[
                Candidate(
                    url=D,
                    confidence=confidence,
                    resemblance=None,
                    containment=None,
                    first_seen=None,
                    last_seen=None,
                    evidence=[],
                )
            ],
        )

    answers = [answer(A, "gone", 0.3), answer(B, "unknown", 0.3), answer(C, "gone", 0.0)]
    assert list(build_redirect_map(answers, 0.3).moves) == [A]
    assert list(build_redirect_map(answers, 0.0).moves) == [A], "an error page is never a target"


def test_forms() -> None:
    moves = flatten_chains({"https://a.example/old?x=1&y": ("https://b.example/n$w", 0.9), A: (B, 0.75)})
    nginx, _ = render(moves, "nginx")
    assert '    "a.example/old?x=1&y" "https://b.example/n%24w";\n' in nginx
    assert nginx.endswith("}\n")
    apache, _ = render(moves, "apache")
    assert "a.example/a https://a.example/b\n" in apache
    netlify, dropped = render(moves, "netlify")
    assert netlify == "/a https://a.example/b 301\n"
    assert list(dropped) == ["https://a.example/old?x=1&y"]
    table, _ = render(moves, "csv")
    assert list(csv.reader(io.StringIO(table)))[1] == [A, B, "0.750"]


def test_netlify_patterns_are_left_out() -> None:
    text, dropped = render(
        flatten_chains({"https://a.example/*/x": (B, 1.0), "https://a.example/:id": (B, 1.0)}), "netlify"
    )
    assert text == ""
    assert len(dropped) == 2


def _nginx_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith('    "')]


def _long(start: str, length: int, fill: str = "x") -> str:
    return start + fill * (length - len(start))


def _moved(old: str, new: str) -> RedirectMap:
    return RedirectMap({old: (new, 1.0)}, {})


def test_apache_reads_no_line_in_pieces() -> None:
    line = _long("a.example/", 1000 - len(" " + B))
    assert f"{line} {B}\n" in render(_moved("https://" + line, B), "apache")[0]
    longer = f"https://{line}x"
    text, dropped = render(_moved(longer, B), "apache")
    assert text == render(RedirectMap({}, {}), "apache")[0]
    assert dropped == {longer: "is too long for an Apache map"}


def test_apache_drops_the_old_query() -> None:
    text, _ = render(_moved(A, B), "apache")
    assert "[R=301,L,NE,QSD,UnsafeAllow3F]" in text
    assert "2.4.60" in text
    assert all(line.startswith("# ") for line in text.splitlines()[:-1])


@pytest.mark.parametrize(
    ("key", "rows", "bucket", "size"), [(0, 0, 64, 2048), (64, 1, 128, 2048), (65, 1500, 256, 4096)]
)
def test_nginx_is_given_room_for_the_keys(key: int, rows: int, bucket: int, size: int) -> None:
    moves = {_long(f"https://a.example/{n}/", key + len("https://")): (B, 1.0) for n in range(rows)}
    text, _ = render(RedirectMap(moves, {}), "nginx")
    head = text[: text.index("\nmap ")].splitlines()
    assert f"map_hash_bucket_size {bucket};" in head
    assert f"map_hash_max_size {size};" in head


def test_nginx_keys_differ_by_more_than_case() -> None:
    upper, lower, other = (f"https://a.example/{n}" for n in ("Guide", "guide", "guides"))
    text, dropped = render(flatten_chains({lower: (B, 1.0), upper: (C, 1.0), other: (D, 1.0)}), "nginx")
    assert _nginx_lines(text) == [
        f'    "a.example/Guide" "{C}";',
        f'    "a.example/guides" "{D}";',
        '    "a.example/Guide" "/Guide";',
        '    "a.example/guides" "/guides";',
    ]
    assert list(dropped) == [lower]
    assert "only in case" in dropped[lower]


SERVER = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}
http {{
    access_log off;
    include {folder}/moved.conf;
    server {{
        listen unix:{folder}/socket;
        if ($moved_from = $request_uri) {{ return 301 $moved_to; }}
        location / {{ return 200; }}
    }}
}}
"""


class _ToSocket(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx here to read its map with")
def test_nginx_redirects_what_moved_and_nothing_else() -> None:
    """A site whose names became lower case must not redirect the new ones to themselves."""
    moves = {"/Guide": "/guide", "/a$b?x=$1&y": "/n$w", "/'x;y": "/z", "/s%20p%C3%A9": "/sp", '/q"u': "/q"}
    base = "https://a.example"
    text, dropped = render(flatten_chains({base + old: (base + new, 1.0) for old, new in moves.items()}), "nginx")
    assert not dropped
    with tempfile.TemporaryDirectory() as folder:  # a socket's path must be short
        Path(folder, "moved.conf").write_text(text)
        Path(folder, "nginx.conf").write_text(SERVER.format(folder=folder))
        with subprocess.Popen(["nginx", "-c", f"{folder}/nginx.conf", "-p", folder]) as server:
            try:
                while not Path(folder, "socket").exists() and server.poll() is None:
                    time.sleep(0.01)
                for path in (*moves, "/guide", "/GUIDE", "/other"):
                    connection = _ToSocket(f"{folder}/socket")
                    connection.request("GET", path.replace('"', "%22"), headers={"Host": "a.example"})
                    answer = connection.getresponse()
                    to = moves.get(path)
                    expected = (301, base + to.replace("$", "%24")) if to else (200, None)
                    assert (answer.status, answer.getheader("Location")) == expected
                    connection.close()
            finally:
                server.terminate()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (A, _long("https://b.example/", 3999)),
        (_long("https://a.example/", 4007), B),
        (_long("https://a.example/?", 2040, "\\"), B),
        (A, _long("https://b.example/", 1400, "$")),
    ],
)
def test_nginx_is_given_no_word_that_it_refuses(old: str, new: str) -> None:
    text, dropped = render(_moved(old, new), "nginx")
    assert not _nginx_lines(text)
    assert dropped == {old: "is too long for an nginx map"}


def test_nginx_takes_long_words() -> None:
    old, new = _long("https://a.example/", 4006), _long("https://b.example/", 3998)
    text, dropped = render(_moved(old, new), "nginx")
    assert len(_nginx_lines(text)) == 2
    assert not dropped


@pytest.mark.parametrize("map_format", sorted(FORMATS))
def test_user_names_and_passwords_are_not_written(map_format: str) -> None:
    text, dropped = render(_moved("https://me:secret@a.example/a", "https://you:hidden@b.example/b"), map_format)
    assert "https://b.example/b" in text
    assert not dropped
    assert not any(word in text for word in ("me:", "secret", "you:", "hidden", "@a", "@b"))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InputError, match="lighttpd"):
        render(RedirectMap({}, {}), "lighttpd")


@pytest.mark.parametrize("map_format", sorted(FORMATS))
def test_a_hostile_url_stays_one_harmless_line(map_format: str) -> None:
    plain, _ = render(flatten_chains({A: (B, 1.0)}), map_format)
    text, _ = render(flatten_chains({A: (B, 1.0), HOSTILE: (C, 1.0), D: (HOSTILE, 1.0)}), map_format)
    assert len(text.splitlines()) <= len(plain.splitlines()) + 2 * LINES[map_format]
    assert "\r" not in text
    if map_format == "nginx":
        for line in _nginx_lines(text):
            assert line.count('"') - line.count('\\"') == 4
            assert "$" not in line.split('" "')[1].replace("${moved_dollar}", "")


@given(st.dictionaries(st.text(max_size=40), st.tuples(st.text(max_size=40), st.floats(0, 1)), max_size=6))
def test_nothing_ends_a_line_early(tails: dict[str, tuple[str, float]]) -> None:
    moves = {f"https://a.example/{o}": (f"https://b.example/{n}", c) for o, (n, c) in tails.items()}
    result = flatten_chains(moves)
    for map_format in FORMATS:
        text, dropped = render(result, map_format)
        heads = render(RedirectMap({}, {}), map_format)[0].count("\n")
        written = len(result.moves) - (len(dropped) - len(result.dropped))
        assert text.count("\n") == heads + LINES[map_format] * written
        assert all(ord(character) >= 32 or character == "\n" for character in text)


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=10))
def test_no_redirect_leads_to_a_redirect(steps: dict[int, int]) -> None:
    urls = [f"https://a.example/{n}" for n in range(10)]
    result = flatten_chains({urls[a]: (urls[b], 0.9) for a, b in steps.items()})
    assert set(result.moves) | set(result.dropped) == {urls[a] for a in steps}
    for new, _ in result.moves.values():
        assert new not in result.moves
        assert new not in result.dropped
