"""Makes sketches of texts, splits them into buckets, and compares them.

The kernel, and numba with it, is loaded with the first sketch or comparison, so that commands without either start
quickly. Hashes read bytes in little-endian order: sketches are the same on every machine that numba supports.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import mmh3
import msgspec
import numpy as np
from numpy.typing import NDArray

from state.model import Sketch
from streams.sketch import unicode_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from state.scheme import Scheme

TOKENS_MAX = 1_000_000
WORDS_CACHED = 65_536  # single words, those of paths: pages of one site share most of them
_KEEP_BYTES_MAX = 64 << 20  # scratch above this is given back after the batch that needed it
_U64 = (1 << 64) - 1

# ASCII as it is folded: letters to lower case, digits as they are, all else 0.
_ASCII_FOLD = np.array(
    [ord(chr(b).lower()) if b < 128 and chr(b).isalnum() else 0 for b in range(256)], dtype=np.uint8
)


def fingerprint(body: bytes) -> bytes:
    """Return an 8-byte fingerprint; captures with the same fingerprint were served the same bytes."""
    return mmh3.mmh3_x64_128_digest(body)[:8]


def buckets(signatures: NDArray[np.uint8], scheme: Scheme) -> NDArray[np.uint8]:
    """The buckets of documents: uint8[n, bands, 1 + rows] from signatures uint8[n, bins]; band number first."""
    out = np.empty((signatures.shape[0], scheme.bands, scheme.bucket_bytes), dtype=np.uint8)
    out[:, :, 0] = np.arange(scheme.bands, dtype=np.uint8)
    out[:, :, 1:] = signatures.reshape(-1, scheme.bands, scheme.rows)
    return out


class SketchBatch(msgspec.Struct, frozen=True, eq=False):
    """Sketches of n texts as columns. A text without a token has no shingles, and is for the caller to reject."""

    documents: list[bytes]  # 16 bytes each
    signatures: NDArray[np.uint8]  # [n, bins]
    samples: NDArray[np.uint32]  # [n, sample_max], ascending in the first sample_sizes[i], 0 behind them
    sample_sizes: NDArray[np.int64]
    exponents: NDArray[np.int64]
    shingles: NDArray[np.int64]  # distinct, by 32 bits each: some 5 too few of 200,000
    tokens: NDArray[np.int64]
    words: NDArray[
        np.uint32
    ]  # [n, words_max], the words to index in the first word_counts[i], see `streams.sketch.index_terms`
    word_counts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.documents)

    def sketch(self, i: int) -> Sketch:
        """One sketch, with arrays of its own."""
        return Sketch(
            document=self.documents[i],
            signature=self.signatures[i].copy(),
            sample=self.samples[i, : self.sample_sizes[i]].copy(),
            exponent=int(self.exponents[i]),
            shingles=int(self.shingles[i]),
            tokens=int(self.tokens[i]),
        )


class Comparison(msgspec.Struct, frozen=True):
    """How alike documents a and b are; the errors are standard errors, 0 where the figures were counted."""

    resemblance: float
    resemblance_error: float
    containment: float  # of a in b
    containment_error: float
    contained: float  # of b in a
    contained_error: float
    exact: bool


class Comparisons(msgspec.Struct, frozen=True, eq=False):
    """Comparisons of n pairs as columns: float64[n] each but `exact`, bool[n]."""

    resemblance: NDArray[np.float64]
    resemblance_error: NDArray[np.float64]
    containment: NDArray[np.float64]
    containment_error: NDArray[np.float64]
    contained: NDArray[np.float64]
    contained_error: NDArray[np.float64]
    exact: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.exact)

    def comparison(self, i: int) -> Comparison:
        """The i-th pair."""
        columns: tuple[NDArray[Any], ...] = msgspec.structs.astuple(self)
        return Comparison(*(column[i].item() for column in columns))


def to_columns(sketches: Sequence[Sketch]) -> SketchBatch:
    """Return sketches of one scheme as columns."""
    n = len(sketches)
    bins = len(sketches[0].signature) if sketches else 0
    sizes = np.fromiter((len(s.sample) for s in sketches), dtype=np.int64, count=n)
    samples = np.zeros((n, int(sizes.max(initial=0))), dtype=np.uint32)
    for row, sketch in zip(samples, sketches, strict=True):
        row[: len(sketch.sample)] = sketch.sample
    counts = np.array([(s.exponent, s.shingles, s.tokens) for s in sketches], dtype=np.int64).reshape(n, 3)
    return SketchBatch(
        documents=[s.document for s in sketches],
        signatures=np.array([s.signature for s in sketches], dtype=np.uint8).reshape(n, bins),
        samples=samples,
        sample_sizes=sizes,
        exponents=np.ascontiguousarray(counts[:, 0]),
        shingles=np.ascontiguousarray(counts[:, 1]),
        tokens=np.ascontiguousarray(counts[:, 2]),
        words=np.zeros((n, 0), dtype=np.uint32),
        word_counts=np.zeros(n, dtype=np.int64),
    )


def compare_pairs(a: SketchBatch, b: SketchBatch, left: NDArray[np.int64], right: NDArray[np.int64]) -> Comparisons:
    """Compare row left[i] of `a` with row right[i] of `b`, for each i. Both must be of one scheme.

    The figures are exact if both documents have at most `sample_max` shingles. A pair takes well under a microsecond.
    """
    from streams.sketch.similarity import compare_columns

    out, exact = np.empty((len(left), 6)), np.empty(len(left), dtype=np.bool_)
    if len(left):
        compare_columns(left, right, *_compared(a), *_compared(b), out, exact)
    return Comparisons(out[:, 0], out[:, 1], out[:, 2], out[:, 3], out[:, 4], out[:, 5], exact)


def _compared(batch: SketchBatch) -> tuple[NDArray[Any], ...]:
    return batch.signatures, batch.samples, batch.sample_sizes, batch.exponents, batch.shingles


def compare(a: Sketch, b: Sketch) -> Comparison:
    """Compare two sketches of one scheme; for many pairs, `compare_pairs` is many times as fast."""
    return compare_many(a, [b]).comparison(0)


def compare_many(sketch: Sketch, others: Sequence[Sketch]) -> Comparisons:
    """Compare one sketch, as a, with each of `others`, as b."""
    n = len(others)
    return compare_pairs(to_columns([sketch]), to_columns(others), np.zeros(n, dtype=np.int64), np.arange(n))


class Sketcher:
    """Makes sketches of one scheme. Safe to share between threads; each gets its own scratch memory."""

    def __init__(self, scheme: Scheme, tokens_max: int = TOKENS_MAX) -> None:
        self.scheme = scheme
        self.tokens_max = tokens_max
        numbers = _numbers(scheme.seed)
        token_seed, shingle_seed, probe_seed, base = (next(numbers) for _ in range(4))
        base |= 1
        leaving_power = pow(base, scheme.shingle_words, 1 << 64)
        self._seeds = tuple(np.uint64(n) for n in (token_seed, shingle_seed, probe_seed, base, leaving_power))
        self._bin_seeds = np.array([next(numbers) & 0xFFFF_FFFF for _ in range(scheme.bins)], dtype=np.uint32)
        self._digest_seed = scheme.seed & 0xFFFF_FFFF
        self._local = threading.local()
        self._hashes: dict[str, list[int]] = {}

    def sketch(self, text: str) -> Sketch:
        """Return the sketch of one text; for many texts, `sketch_batch` is several times as fast."""
        return self.sketch_batch([text]).sketch(0)

    def sketch_batch(self, texts: Sequence[str], words_max: int = 0) -> SketchBatch:
        """Sketches of `texts`, in their order, and up to `words_max` words of each to index.

        Most of the work is done without the GIL.
        """
        columns, digests, unnormal = self._columns(texts, words_max, normal=False)
        if hard := np.flatnonzero(unnormal).tolist():
            again, again_digests, _ = self._columns([_normal(texts[i]) for i in hard], words_max, normal=True)
            for column, values in zip(columns, again, strict=True):
                column[hard] = values
            for i, digest in zip(hard, again_digests, strict=True):
                digests[i] = digest
        signatures, samples, sizes, exponents, shingles, tokens, words, counts = columns
        return SketchBatch(
            documents=digests,
            signatures=signatures,
            samples=samples,
            sample_sizes=sizes,
            exponents=exponents,
            shingles=shingles,
            tokens=tokens,
            words=words,
            word_counts=counts,
        )

    def shingle_hashes(self, text: str) -> NDArray[np.uint32]:
        """All distinct shingles of a text, ascending: what its sample is drawn from."""
        return self._shingles(*self._tokenise(text)[:2])

    def word_hashes(self, text: str) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Distinct words of a text, ascending by hash, and how often each occurs."""
        return self._words(*self._tokenise(text)[:2])

    def shingles_and_words(self, text: str) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
        """What `shingle_hashes` and `word_hashes` give, from one pass."""
        scratch, tokens, _ = self._tokenise(text)
        return self._shingles(scratch, tokens), *self._words(scratch, tokens)

    def _shingles(self, scratch: _Scratch, tokens: int) -> NDArray[np.uint32]:
        _, shingle_seed, _, base, leaving_power = self._seeds
        count = _kernel().shingle(
            scratch.hashes, tokens, self.scheme.shingle_words, base, leaving_power, shingle_seed, self.scheme.bins,
            scratch.slots, scratch.distinct, scratch.winners,
        )  # fmt: skip
        return np.sort(scratch.distinct[:count])

    def _words(self, scratch: _Scratch, tokens: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        distinct, counts = _kernel().runs(np.sort((scratch.hashes[:tokens] >> np.uint64(32)).astype(np.uint32)))
        return distinct, counts

    def token_hashes(self, text: str) -> list[int]:
        """The word hash of each token of a short text, in order."""
        scratch, tokens, _ = self._tokenise(text)
        hashes: list[int] = (scratch.hashes[:tokens] >> np.uint64(32)).tolist()
        return hashes

    def words_hashes(self, words: Iterable[str]) -> Mapping[str, list[int]]:
        """What `token_hashes` gives for each of some single words, through a cache that holds others too."""
        wanted, known = set(words), self._hashes
        missing = [word for word in wanted if word not in known]
        if missing:
            if len(known) + len(missing) > WORDS_CACHED:
                known, missing = {}, list(wanted)
            known.update(self._each_hashes(missing))
            self._hashes = known
        return known

    def _each_hashes(self, words: list[str]) -> dict[str, list[int]]:
        """ASCII words by one call of the kernel for many, where calls cost more than words do."""
        plain = [word for word in words if word.isascii() and word.isalnum()]
        hashes: dict[str, list[int]] = {}
        for at in range(0, len(plain), self.tokens_max):
            some = plain[at : at + self.tokens_max]
            hashes.update(zip(some, ([word] for word in self.token_hashes(" ".join(some))), strict=True))
        hashes.update((word, self.token_hashes(word)) for word in words if word not in hashes)
        return hashes

    def canonical(self, text: str) -> str:
        """The canonical tokens of a text, one space between two: texts with the same are the same document."""
        scratch, _, end = self._tokenise(text)
        return scratch.canonical[: max(end - 1, 0)].tobytes().decode()

    def _tokenise(self, text: str) -> tuple[_Scratch, int, int]:
        kernel = _kernel()
        for normal in (False, True):
            data = (_normal(text) if normal else text).encode("utf-8", "replace")
            scratch = self._scratch(len(data), len(data))
            tokens, end, hard = kernel.tokenise(
                np.frombuffer(data, dtype=np.uint8), 0, len(data), text.isascii(), normal, self.tokens_max,
                self._seeds[0], _ASCII_FOLD, unicode_table.load(),
                scratch.folded, scratch.bounds, scratch.canonical, 0, scratch.hashes,
            )  # fmt: skip
            if not hard:
                break
        return scratch, tokens, end

    def _columns(
        self, texts: Sequence[str], words_max: int, *, normal: bool
    ) -> tuple[tuple[NDArray[Any], ...], list[bytes], NDArray[np.bool_]]:
        n, scheme = len(texts), self.scheme
        encoded = [text.encode("utf-8", "replace") for text in texts]
        sizes = np.fromiter(map(len, encoded), dtype=np.int64, count=n)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        is_ascii = np.fromiter((text.isascii() for text in texts), dtype=np.bool_, count=n)
        scratch = self._scratch(int(sizes.max(initial=0)), int(offsets[-1]) + n)
        columns: tuple[NDArray[Any], ...] = (
            np.zeros((n, scheme.bins), dtype=np.uint8),
            np.zeros((n, scheme.sample_max), dtype=np.uint32),
            *(np.zeros(n, dtype=np.int64) for _ in range(4)),
            np.zeros((n, words_max), dtype=np.uint32),
            np.zeros(n, dtype=np.int64),
        )
        ends, hard = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
        _kernel().sketch_columns(
            np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets, is_ascii, normal,
            (scheme.shingle_words, scheme.sample_max, self.tokens_max), self._seeds, self._bin_seeds,
            _ASCII_FOLD, unicode_table.load(),
            scratch.folded, scratch.bounds, scratch.hashes, scratch.slots, scratch.distinct, scratch.winners,
            scratch.canonical, scratch.tally, np.zeros(words_max), ends, *columns, hard,
        )  # fmt: skip
        view, at, digests = scratch.canonical.data, 0, []
        for end in ends.tolist():
            digests.append(mmh3.mmh3_x64_128_digest(view[at:end], self._digest_seed))
            at = end
        if scratch.nbytes > _KEEP_BYTES_MAX:
            del self._local.scratch
        return columns, digests, hard

    def _scratch(self, text_bytes: int, all_bytes: int) -> _Scratch:
        scratch: _Scratch | None = getattr(self._local, "scratch", None)
        if scratch is None or text_bytes > scratch.text_bytes or all_bytes > scratch.all_bytes:
            old = scratch or _Scratch(1 << 14, 1 << 16, self.scheme.bins)
            scratch = _Scratch(max(text_bytes, old.text_bytes), max(all_bytes, old.all_bytes), self.scheme.bins)
            self._local.scratch = scratch
        return scratch


class _Scratch:
    """Memory that the kernel works in, for texts of at most `text_bytes` and batches of at most `all_bytes`."""

    def __init__(self, text_bytes: int, all_bytes: int, bins: int) -> None:
        self.text_bytes, self.all_bytes = text_bytes, all_bytes
        # Folding makes a text at most half as long again, as a letter of two bytes may fold to one of three. The rest
        # is room to read and write eight bytes at a time.
        length = text_bytes * 3 // 2 + 64
        words = length // 2 + 1
        self.folded = np.zeros(length, dtype=np.uint8)
        self.bounds = np.zeros(2 * words + 2, dtype=np.uint32)
        self.hashes = np.zeros(words, dtype=np.uint64)
        self.slots = np.zeros(max(16, 1 << (2 * words - 1).bit_length()), dtype=np.uint32)
        self.distinct = np.zeros(words + 1, dtype=np.uint32)
        self.winners = np.zeros(bins, dtype=np.uint64)
        self.tally = np.zeros_like(self.slots)
        self.canonical = np.zeros(all_bytes * 2 + 64, dtype=np.uint8)
        arrays = (self.folded, self.bounds, self.hashes, self.slots, self.tally, self.distinct, self.canonical)
        self.nbytes = sum(array.nbytes for array in arrays)


def _normal(text: str) -> str:
    """A text whose characters the kernel may fold one by one: ignored ones out, composed, case folded.

    Characters that the running Python knows and the frozen table does not become spaces first.
    """
    points = np.frombuffer(text.encode("utf-32-le", "replace"), dtype="<u4")
    entries = unicode_table.load()[points]
    points = np.where(entries & unicode_table.UNASSIGNED, ord(" "), points)
    points = points[(entries >> unicode_table.CLASS_SHIFT) & 7 != unicode_table.IGNORED]
    return unicode_table.nfkc_casefold(points.astype("<u4").tobytes().decode("utf-32-le"))


def _numbers(seed: int) -> Any:
    """Splitmix64: 64-bit numbers without end from one seed."""
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & _U64
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & _U64
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _U64
        yield z ^ z >> 31


def _kernel() -> Any:
    from streams.sketch import kernel

    return kernel
