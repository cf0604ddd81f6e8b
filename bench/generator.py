"""Generate synthetic pages with the statistics of crawled text: any slice of an endless corpus, from a seed.

Every choice is a hash of a key and a position (SplitMix64 over numpy columns), not a number from a sequential random
generator. Page 4,999,999 therefore costs as much as page 0, and a slice always has the same bytes. A near-copy shares
words with its original because both use the same keys and positions.

- **Words**: a Zipf-Mandelbrot law over pronounceable words. Some words of a text belong to its topic. Some repeat
  earlier words (Simon's model of 1955), so that words occur in bursts.
- **Lengths**: log-normal.
- **Duplicates**: some pages are exact and some are near-copies of a cluster's text. Clusters are chosen by a power law,
  so a few are huge and most have two members. In near-copies, scattered words or a block of words are replaced; their
  resemblance is uniform between `resemblance_min` and 1.
- **Sites**: also chosen by a power law; each has a template (navigation, footer) around its texts, directories for its
  URLs, and a spelling: plain ASCII or with accents.

As a command, this module writes JSONL: `python -m bench.generator --documents 1000 > pages.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.html import page as as_html
from streams.page import Origin, Page

U64 = NDArray[np.uint64]
WORDS = 200_000  # words in the vocabulary, each in two spellings
BLOCK = 256  # pages per block: its columns fit the CPU's second-level cache
FIRST_FETCH = 1_735_689_600_000  # 2025-01-01T00:00:00Z in ms
SWEEP_INTERVAL = 30 * 86_400_000  # ms between sweeps

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ZIPF_SHIFT, _ZIPF_EXPONENT = 2.7, 1.07
_TOPIC_WORDS = 150
_TOPICAL, _REPEATED = 0.30, 0.15  # shares of a text's words
_SENTENCE, _PARAGRAPH = 17, 90  # words, on average

# One salt per purpose of a hash. The salts only have to differ.
_SALTS = {
    name: np.uint64(0xD1B54A32D192ED03 * (at + 1) & (1 << 64) - 1)
    for at, name in enumerate(
        ("page", "cluster", "pick", "kind", "site", "home", "length", "length2", "target", "how", "edit", "from",
         "topic", "words", "repeat", "head", "foot", "spelling", "path", "mirror", "change", "name", "crowd", "break")
    )
}  # fmt: skip


class Shape(msgspec.Struct, frozen=True):
    """Parameters of the corpus: lengths in words, shares of pages."""

    seed: int = 1
    words_median: int = 300
    words_sigma: float = 0.7
    words_max: int = 5000
    exact_share: float = 0.08
    near_share: float = 0.17
    resemblance_min: float = 0.45  # between a near-copy and its cluster's text
    cluster_skew: float = 2.5  # 1: uniform; a larger skew puts more pages in the largest clusters
    pages_per_cluster: int = 12  # the corpus gets one more cluster per this many pages
    pages_per_site: int = 400
    template_median: int = 35  # words in navigation and footer together
    crowd: bool = False  # all pages are near-copies of one page
    crowd_resemblance_min: float = 0.85
    changed_share: float = 0.0  # share of pages that differ from the previous sweep


class _Plan(msgspec.Struct, frozen=True):
    """The properties of a block of pages, one element per page."""

    indexes: U64
    base_keys: U64  # keys of the words shared with the cluster, or of the page's own words
    own_keys: U64  # keys of the words that only one page contains
    word_counts: NDArray[np.int64]
    scattered_shares: NDArray[np.float64]  # share of words replaced one by one
    block_shares: NDArray[np.float64]  # share of words replaced as one block
    sites: U64
    text_sites: U64  # the sites whose templates surround the texts


def pages(shape: Shape, start: int, stop: int, *, sweep: int = 0, html: bool = False) -> Iterator[Page]:
    """Yield pages `start` to `stop` (excluded) of a corpus, as sweep number `sweep` fetches them."""
    return pages_at(shape, np.arange(start, stop, dtype=np.uint64), sweep=sweep, html=html)


def pages_at(shape: Shape, indexes: U64, *, sweep: int = 0, html: bool = False) -> Iterator[Page]:
    """Yield the pages with these indexes."""
    for at in range(0, len(indexes), BLOCK):
        plan = _plan(shape, indexes[at : at + BLOCK], sweep)
        for index, site, text in zip(plan.indexes.tolist(), plan.sites.tolist(), _texts(shape, plan), strict=True):
            url = _url(shape, site, index)
            time = FIRST_FETCH + sweep * SWEEP_INTERVAL + index * 40
            title = text[:60].split(".")[0].strip()
            origin = Origin("synthetic", index)
            if html:
                body = as_html(title, text, url, _host(shape.seed, site)[2]).encode()
                yield Page(url=url, time=time, body=body, mime="text/html", charset="utf-8", origin=origin)
            else:
                yield Page(url=url, time=time, text=text, title=title, origin=origin)


def sites_of(shape: Shape, start: int, stop: int) -> U64:
    """Return the site numbers of pages `start` to `stop`, without generating texts."""
    return _plan(shape, np.arange(start, stop, dtype=np.uint64), 0).sites


def texts(shape: Shape, start: int, stop: int) -> list[str]:
    """Return only the texts of pages `start` to `stop`."""
    result: list[str] = []
    for first in range(start, stop, BLOCK):
        indexes = np.arange(first, min(first + BLOCK, stop), dtype=np.uint64)
        result += _texts(shape, _plan(shape, indexes, 0))
    return result


def texts_of(start: int, stop: int, **shape: Any) -> dict[str, Any]:
    """Return texts as a dict, for `bench.measure.in_child`."""
    return {"texts": texts(Shape(**shape), start, stop)}


def lines(pages: Iterator[Page]) -> Iterator[bytes]:
    """Yield pages as lines of JSONL for `lostfound ingest`."""
    encode = msgspec.json.Encoder().encode
    for page in pages:
        line: dict[str, Any] = {"url": page.url, "fetch_time": page.time}
        if page.body is not None:
            line["html"] = page.body.decode()
        else:
            line |= {"text": page.text, "title": page.title}
        yield encode(line) + b"\n"


def _mix(keys: U64) -> U64:
    """Apply the finaliser of SplitMix64 to a column."""
    z = keys + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _hash(keys: U64, salt: str, seed: int = 0) -> U64:
    return _mix(keys * _GOLDEN ^ _SALTS[salt] ^ np.uint64(seed * 0xA24BAED4963EE407 & (1 << 64) - 1))


def _unit(hashes: U64) -> NDArray[np.float64]:
    """Map hashes to numbers in (0, 1)."""
    return ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _log_normal(keys: U64, median: float, sigma: float) -> NDArray[np.float64]:
    radius = np.sqrt(-2.0 * np.log(_unit(_hash(keys, "length"))))
    return median * np.exp(sigma * radius * np.cos(2 * np.pi * _unit(_hash(keys, "length2"))))


def _plan(shape: Shape, indexes: U64, sweep: int) -> _Plan:
    seed = shape.seed
    own_keys = _hash(indexes, "page", seed)
    kind = _unit(_hash(own_keys, "kind"))
    is_exact = (kind < shape.exact_share) & (not shape.crowd)
    is_near = (kind < shape.exact_share + shape.near_share) | shape.crowd
    cluster_counts = 1.0 + (indexes // np.uint64(shape.pages_per_cluster)).astype(np.float64)
    skewed = _unit(_hash(own_keys, "pick")) ** shape.cluster_skew
    cluster_numbers = np.floor(cluster_counts * skewed).astype(np.uint64)
    cluster_keys = _hash(cluster_numbers * np.uint64(not shape.crowd), "crowd" if shape.crowd else "cluster", seed)
    base_keys = np.where(is_near, cluster_keys, own_keys)
    own_sites = _choose_sites(shape, own_keys, indexes)
    first_pages = cluster_numbers * np.uint64(0 if shape.crowd else shape.pages_per_cluster)
    cluster_sites = _choose_sites(shape, _hash(cluster_keys, "home"), first_pages)
    at_cluster_site = is_near & (_unit(_hash(own_keys, "mirror")) < 0.5)
    resemblance_min = shape.crowd_resemblance_min if shape.crowd else shape.resemblance_min
    resemblance = resemblance_min + (1 - resemblance_min) * _unit(_hash(own_keys, "target"))
    resemblance = np.where(is_near & ~is_exact, resemblance, 1.0)
    shared = 2 * resemblance / (1 + resemblance)  # the share of a text's shingles that are in the other text
    replaces_block = _unit(_hash(own_keys, "how")) < 0.5
    scattered_shares = np.where(replaces_block, 0.0, 1 - shared**0.25)  # a shingle has four words
    block_shares = np.where(replaces_block, 1 - shared, 0.0)
    if sweep and shape.changed_share:
        changed = _unit(_hash(own_keys, "change", sweep)) < shape.changed_share
        scattered_shares = np.where(changed, np.maximum(scattered_shares, 0.02), scattered_shares)
        own_keys = np.where(changed, _hash(own_keys, "change", sweep + 7), own_keys)
    lengths = _log_normal(base_keys, shape.words_median, shape.words_sigma)
    if shape.crowd:  # all pages are near-copies of one text, which has the mean length
        lengths[:] = shape.words_median * np.exp(shape.words_sigma**2 / 2)
    word_counts = np.clip(lengths, 12, shape.words_max).astype(np.int64)
    return _Plan(
        indexes, base_keys, own_keys, word_counts, scattered_shares, block_shares,
        np.where(at_cluster_site, cluster_sites, own_sites),
        np.where(is_exact | at_cluster_site | shape.crowd, cluster_sites, own_sites),
    )  # fmt: skip


def _choose_sites(shape: Shape, keys: U64, index: U64) -> U64:
    """Choose a site for each page among the sites that exist so far. Early sites are more likely."""
    sites = 2.0 + (index // np.uint64(shape.pages_per_site)).astype(np.float64)
    return np.floor(sites * _unit(_hash(keys, "site")) ** 2.0).astype(np.uint64)


def _texts(shape: Shape, plan: _Plan) -> list[str]:
    site_keys = _hash(plan.text_sites, "site", shape.seed)
    template_words = np.clip(_log_normal(site_keys, shape.template_median, 0.6), 4, 400).astype(np.int64)
    head_words = template_words * 3 // 4
    total_words = plan.word_counts + template_words
    ends = np.cumsum(total_words)
    starts = ends - total_words
    row = np.repeat(np.arange(len(total_words)), total_words)
    position = np.arange(int(ends[-1])) - starts[row]
    body_position = position - head_words[row]
    in_header, in_footer = body_position < 0, body_position >= plan.word_counts[row]
    position = position.astype(np.uint64)
    # A replaced block may start anywhere; scattered words are replaced at random.
    block_start = np.floor(_unit(_hash(plan.own_keys, "from")) * (1 - plan.block_shares) * plan.word_counts)
    block_stop = block_start + plan.block_shares * plan.word_counts
    in_block = (body_position >= block_start[row]) & (body_position < block_stop[row])
    replaced = _unit(_hash(plan.own_keys[row] + position, "edit")) < plan.scattered_shares[row]
    has_changes = plan.scattered_shares + plan.block_shares > 0
    replaced |= has_changes[row] & (body_position == block_start[row])  # replace at least one word
    word_position = np.where(in_header | in_footer, position, np.maximum(body_position, 0).astype(np.uint64))
    keys = np.where(replaced | in_block, plan.own_keys[row], plan.base_keys[row])
    keys = np.where(in_header | in_footer, site_keys[row], keys)
    words = _draw_words(keys, word_position)
    accented = (_hash(plan.text_sites, "spelling", shape.seed) & np.uint64(7)) < 3
    words += (accented * WORDS * len(_ENDINGS))[row]
    words += _ending_numbers(keys, word_position, starts) * WORDS
    return _join_words(words, starts, ends)


def _draw_words(keys: U64, positions: U64) -> NDArray[np.int64]:
    """Draw a word for each key and position."""
    hashes = _hash(keys + positions * np.uint64(0x2545F4914F6CDD1D), "words")
    uniform = _unit(hashes << np.uint64(12))
    kind = (hashes >> np.uint64(52)).astype(np.float64) / 4096.0
    repeated = np.flatnonzero(kind < _REPEATED)
    if len(repeated):
        earlier_positions = np.floor(uniform[repeated] * positions[repeated].astype(np.float64)).astype(np.uint64)
        earlier_hashes = _hash(keys[repeated] + earlier_positions * np.uint64(0x2545F4914F6CDD1D), "words")
        uniform[repeated] = _unit(earlier_hashes << np.uint64(12))
        kind[repeated] = (earlier_hashes >> np.uint64(52)).astype(np.float64) / 4096.0
    words = _zipf(uniform)
    topical = np.flatnonzero((kind >= _REPEATED) & (kind < _REPEATED + _TOPICAL))
    topic = _hash(keys[topical], "topic") % np.uint64(20_000)
    topic_ranks = np.floor(_TOPIC_WORDS * uniform[topical] ** 2.5).astype(np.uint64)
    hashes = _mix(topic * np.uint64(_TOPIC_WORDS) + topic_ranks)
    words[topical] = 500 + (hashes % np.uint64(WORDS - 500)).astype(np.int64)
    return words


def _zipf(uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Draw ranks from 0 by a Zipf-Mandelbrot law, p(r) ~ (r + shift) ** -exponent, by inverting its integral."""
    power = 1.0 - _ZIPF_EXPONENT
    low, high = _ZIPF_SHIFT**power, (WORDS + _ZIPF_SHIFT) ** power
    ranks = (low + uniform * (high - low)) ** (1.0 / power) - _ZIPF_SHIFT
    clipped: NDArray[np.int64] = np.clip(ranks, 0, WORDS - 1).astype(np.int64)
    return clipped


_ENDINGS = (" ", ", ", ". ", ".\n\n")


def _ending_numbers(keys: U64, positions: U64, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an index into `_ENDINGS` for each word."""
    uniform = _unit(_hash(keys + positions * np.uint64(0x9FB21C651E98DF25), "break"))
    endings = (uniform < 1 / 9).astype(np.int64) + (uniform < 1 / _SENTENCE) + (uniform < 1 / _PARAGRAPH)
    endings[starts] = 0
    return endings


def _join_words(words: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[str]:
    strings = _vocabulary()[words].tolist()
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return ["".join(strings[a:b]).rstrip().capitalize() for a, b in bounds]


@cache
def _vocabulary() -> NDArray[np.object_]:
    """Return all words in all endings: object[2 * endings * WORDS]. Frequent words have fewer syllables.

    The first half is plain ASCII; the second half has the same words with some accents.
    """
    onsets = [*"bcdfghklmnprstvwbdlmnrst", "br", "ch", "gr", "pl", "st", "th", "tr"]
    vowels = [*"aeiouaeio", "ai", "ou"]
    codas = ["", "", "n", "r", "s", "l", "t"]
    syllables = [o + v + c for o in onsets for v in vowels for c in codas]
    order = np.argsort(_mix(np.arange(len(syllables), dtype=np.uint64)))
    syllables = [syllables[i] for i in order]
    accents = str.maketrans("euo", "éüö")
    words: list[str] = []
    seen: set[str] = set()
    rank = 0
    while len(words) < WORDS:
        numbers = _mix(np.arange(rank, rank + 4096, dtype=np.uint64) + np.uint64(1 << 40)).tolist()
        for number in numbers:
            # Frequent words are short, as in any language.
            count = 1 if len(words) < 200 else 1 + number % 2 if len(words) < 4000 else 2 + (number % 4 == 0)
            word = ""
            for at in range(count):
                word += syllables[(number >> 9 * (at + 1)) % len(syllables)]
            if word not in seen:
                seen.add(word)
                words.append(word)
        rank += 4096
    words = words[:WORDS]
    accented = [word.translate(accents) if i % 5 == 0 else word for i, word in enumerate(words)]
    return np.array([word + end for half in (words, accented) for end in _ENDINGS for word in half], dtype=object)


@cache
def _host(seed: int, site: int) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return a site's scheme and host, its directories, and the words of its links."""
    vocabulary = _vocabulary()
    numbers = _hash(np.arange(124, dtype=np.uint64) + np.uint64(site * 128), "name", seed).tolist()
    names = [vocabulary[number % 20_000].strip() for number in numbers]
    ending = (".com", ".org", ".net", ".de", ".co.uk", ".fr", ".edu")[numbers[-1] % 7]
    host = f"https://{('www.', '', 'docs.')[numbers[-2] % 3]}{names[0]}{names[1]}{site}{ending}"
    pairs = zip(names[2:12], names[12:22], strict=True)
    folders = tuple(f"/{a}" if i % 3 else f"/{a}/{b}" for i, (a, b) in enumerate(pairs))
    return host, folders, tuple(names[22:122])


def _url(shape: Shape, site: int, index: int) -> str:
    host, folders, _ = _host(shape.seed, site)
    number = ((index + 1) * 0x9E3779B97F4A7C15 + shape.seed) & (1 << 64) - 1
    vocabulary = _vocabulary()
    slug = "-".join(vocabulary[(number >> shift) % 30_000].strip() for shift in (8, 24, 40))
    return f"{host}{folders[(number >> 50) % len(folders)]}/{slug}-{index}.html"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write synthetic pages as JSONL to standard output.")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0, help="index of the first page")
    parser.add_argument("--sweep", type=int, default=0)
    parser.add_argument("--html", action="store_true")
    for field in msgspec.structs.fields(Shape):
        if field.name == "crowd":
            parser.add_argument("--crowd", action="store_true")
        else:
            parser.add_argument(f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default)
    args = vars(parser.parse_args())
    shape = Shape(**{name: args[name] for name in Shape.__struct_fields__})
    corpus = pages(shape, args["start"], args["start"] + args["documents"], sweep=args["sweep"], html=args["html"])
    for line in lines(corpus):
        sys.stdout.buffer.write(line)


if __name__ == "__main__":
    main()
