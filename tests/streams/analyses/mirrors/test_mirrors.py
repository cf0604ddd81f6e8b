"""Tests of streams/analyses/mirrors/: hosts whose level is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest

from streams import settings
from streams.analyses.mirrors import Mirror, compute
from streams.settings import AnalysisSettings
from tests.analysis_data import Page, open_data_set, page, prose, write_data_set

FOLDERS = ("", "guide/", "api/io/", "api/net/")
SETTINGS = settings.load().analyses
Edit = Callable[[str, int], str]


def site(
    host: str,
    name: str = "manual",
    *,
    pages: int = 40,
    edit: Edit = lambda text, _: text,
    lost: Iterable[str] = (),
    lost_status: int | None = None,
    lost_text: str = "",
) -> list[Page]:
    """Return the pages of a host. Pages in the folders `lost` are left out, or have the status or the text instead."""
    result = []
    for number in range(pages):
        folder = FOLDERS[number % len(FOLDERS)]
        url = f"https://{host}/{folder}{number}.html"
        following = [f"https://{host}/{FOLDERS[n % len(FOLDERS)]}{n}.html" for n in range(number + 1, number + 4)]
        if folder not in lost:
            text = edit(prose(name, number, words=random.Random(f"{name} {number}").randrange(40, 240)), number)
            result.append(page(url, text, links=following))
        elif lost_status is not None:
            result.append(page(url, status=lost_status))
        elif lost_text:
            result.append(page(url, lost_text))
    return result


def mirrors(folder: Path, pages: Iterable[Page], limits: AnalysisSettings = SETTINGS, **options: int) -> list[Mirror]:
    with open_data_set(write_data_set(folder, pages, **options)) as engine:
        return compute(engine, limits)


def level(results: list[Mirror], a: str = "a.example", b: str = "b.example") -> str | None:
    return next((mirror.level for mirror in results if mirror.hosts == (a, b)), None)


def with_bytes(pages: list[Page]) -> list[Page]:
    return [msgspec.structs.replace(page, body=f"<p>{page.text}</p> {page.url}".encode()) for page in pages]


def translate(text: str, number: int) -> str:
    words = [f"x{word}" for word in text.split()]
    return " ".join(words[: int(len(words) * (0.9 + number % 3 * 0.05))])


def edited(text: str, number: int) -> str:
    return f"{text} and sentence {number} that was added"


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (site("b.example"), "1"),
        (with_bytes(site("b.example")), "2"),
        (site("b.example", edit=edited), "3"),
        (site("b.example", edit=lambda text, number: edited(text, number) if number % 5 == 0 else text), "3"),
        (site("b.example", lost=["api/io/"]), "4"),  # 10 of 40 pages, but all others are there
        (site("b.example", lost=["api/io/", "api/net/"], lost_status=404), "4"),
        (site("b.example", lost=["api/io/", ""], lost_text="we do not have this page"), "4"),
        (site("b.example", lost=FOLDERS[1:], lost_status=404, pages=16), "4"),
        (site("b.example", edit=translate), "5"),
        (site("b.example", "other"), "mismatch"),
        (site("b.example", pages=4), "untested"),
    ],
    ids=[
        "1",
        "2",
        "3",
        "3 in part",
        "4 folder",
        "4 errors",
        "4 soft 404s",
        "4 few pages",
        "5",
        "mismatch",
        "untested",
    ],
)
def test_levels(tmp_path, copy, expected):
    assert level(mirrors(tmp_path, site("a.example") + copy)) == expected


def test_pages_that_were_not_captured_are_unknown(tmp_path):
    rng = random.Random(3)
    a, b = ([page for page in site(host, pages=80) if rng.random() < 0.5] for host in ("a.example", "b.example"))
    (mirror,) = mirrors(tmp_path, a + b)
    assert (mirror.level, mirror.failed) == ("1", 0)
    assert mirror.unknown == len(a) + len(b) - 2 * mirror.tests > 20
    assert mirror.error_bound == round(3 / mirror.tests, 4)


def test_stored_errors_are_failures_with_an_example(tmp_path):
    pages = site("a.example") + site("b.example", lost=["api/io/"], lost_status=410)
    (mirror,) = mirrors(tmp_path, pages)
    assert (mirror.level, mirror.tests, mirror.same, mirror.failed, mirror.unknown) == ("4", 40, 30, 10, 0)
    assert mirror.error_bound is None
    failed = next(evidence for evidence in mirror.evidence if evidence.kind == "failed")
    assert (failed.value, failed.url) == (10, "https://b.example/api/io/10.html")


def test_temporary_errors_and_redirects_are_unknown(tmp_path):
    pages = site("a.example") + site("b.example", lost=["api/io/"], lost_status=503)
    (mirror,) = mirrors(tmp_path, pages)
    assert (mirror.level, mirror.failed, mirror.unknown) == ("1", 0, 10)


def test_an_absent_folder_is_named(tmp_path):
    (mirror,) = mirrors(tmp_path, site("a.example") + site("b.example", lost=["api/io/", "api/net/"]))
    folder = next(evidence for evidence in mirror.evidence if evidence.kind == "absent_folder")
    assert (folder.value, folder.url) == (20, "https://a.example/api/")


def test_names_of_one_host_are_aliases_and_have_one_group(tmp_path):
    hosts = ("www.a.example", "a.example", "a.example:8080", "www.a.example:8080", "mirror.example")
    results = mirrors(tmp_path, [page for host in hosts for page in site(host, pages=20)])
    aliases = {mirror.hosts: mirror.alias for mirror in results}
    assert aliases["a.example", "www.a.example"] == "www"
    assert aliases["a.example", "a.example:8080"] == "port"
    assert aliases["a.example", "www.a.example:8080"] == "www and port"
    assert aliases["mirror.example", "www.a.example"] is None
    assert {mirror.group for mirror in results} == {"a.example"}
    assert [mirror.level for mirror in results] == ["1"] * 10


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_many_copies_are_connected_by_few_pairs(tmp_path, share):
    rng = random.Random(5)
    hosts = [f"copy{number}.example" for number in range(70)]
    pages = [page for host in hosts for page in site(host, pages=30) if rng.random() < share]
    results = mirrors(tmp_path, pages)
    groups: dict[str | None, set[str]] = {}
    for mirror in results:
        groups.setdefault(mirror.group, set()).update(mirror.hosts)
    assert max(map(len, groups.values())) == 70
    assert len(results) < 70 * 15  # of 2,415


def test_unrelated_hosts_with_common_paths_are_not_mirrors(tmp_path):
    rng = random.Random(7)
    forums = [
        page(f"https://forum{n}.example/viewtopic.php?t={topic}", prose(n, topic, words=rng.randrange(30, 300)))
        for n in range(25)
        for topic in range(20)
    ]
    legal = prose("legal", words=200)
    paths = [f"guide/{topic}" for topic in range(20)]
    menus = [
        page(
            f"https://menu{n}.example/{path}",
            prose("menu", n, path, words=rng.randrange(30, 300)),
            links=[f"https://menu{n}.example/{target}" for target in paths],
        )
        for n in range(25)
        for path in paths
    ]
    shops = [
        page(f"https://shop{n}.example/{path}", legal if path in {"terms", "privacy"} else prose("shop", n, path))
        for n in range(25)
        for path in ("", "about", "contact", "terms", "privacy", *(f"products/{p}" for p in range(10)))
    ]
    parked = [page(f"https://parked{n}.example/", "this domain is for sale ask us for an offer") for n in range(25)]
    builders = [
        page(f"https://soon{n}.example/{path}", "this site is under construction")
        for n in range(25)
        for path in ("", "about", "contact", "help", "news")
    ]
    about = [
        page(f"https://about{n}.example/{path}", prose(n, path)) for n in range(25) for path in ("", "a", "b", "c")
    ]
    forums += about
    results = mirrors(tmp_path, [*forums, *menus, *shops, *parked, *builders])
    assert not [mirror for mirror in results if mirror.is_mirror]
    assert not [mirror for mirror in results if "about1.example" in mirror.hosts]


def test_soft_404s_of_the_same_host_say_nothing_about_a_true_mirror(tmp_path):
    errors = [page(f"https://b.example/missing/{n}", "no such page on this server") for n in range(60)]
    (mirror,) = mirrors(tmp_path, site("a.example") + site("b.example") + errors)
    assert (mirror.level, mirror.failed, mirror.unknown) == ("1", 0, 0)


def test_results_do_not_depend_on_the_order_and_the_parts_of_rows(tmp_path):
    pages = [
        *site("a.example"),
        *site("b.example", edit=edited, lost=["guide/"], lost_status=404),
        *site("c.example", edit=translate),
        *site("www.a.example", lost=["api/net/"]),
        *site("d.example", "other"),
    ]
    outputs = {
        msgspec.json.encode(mirrors(tmp_path / f"{seed}-{parts}", pages, seed=seed, parts=parts))
        for seed, parts in ((0, 1), (1, 4), (2, 7))
    }
    assert len(outputs) == 1
    assert b'"level":"5"' in outputs.pop()


def test_the_limit_of_tests_keeps_the_other_figures(tmp_path):
    limits = msgspec.structs.replace(SETTINGS, mirror_tests_max=10)
    (mirror,) = mirrors(tmp_path, site("a.example") + site("b.example"), limits)
    assert (mirror.level, mirror.tests, mirror.paths, mirror.unknown) == ("1", 10, 40, 0)


def test_hostile_paths(tmp_path):
    paths = ["/" + "x/" * 900, "/a%2Fb", "/..%2f../", "/;/?q=)/(", "/'\"--", "//", "/\x7f", "/%00", "/é", "/1/2/3"]
    pages = [
        page(f"https://{host}{path}", prose(path))
        for host in ("a.example", "b.example")
        for path in sorted(set(paths))
    ]
    (mirror,) = mirrors(tmp_path, pages)
    assert (mirror.level, mirror.same) == ("1", mirror.tests)


def test_no_pages_have_no_mirrors(tmp_path):
    assert mirrors(tmp_path, []) == []
