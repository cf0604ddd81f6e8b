"""Make sketches of texts, cut their signatures into buckets, and compare sketches.

The kernel and numba are loaded at the first sketch, so that commands without new texts start quickly. Stored texts
and sketches are compared in numpy as long as that is faster; see `streams.sketch.numba_use`. Hashes read bytes in
little-endian order, so sketches are the same on every machine that numba supports.
"""

from __future__ import annotations

import threading
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import mmh3
import msgspec
import numpy as np
from numpy.typing import NDArray

from state.model import Sketch
from streams.sketch import numba_use, numpy_tokens, unicode_table
from streams.sketch.parameters import derive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from state.scheme import Scheme
    from streams.sketch.kernel import Scratch, SketchColumns
    from streams.sketch.parameters import Parameters

TOKENS_MAX = 1_000_000
_TEXT_SECONDS, _CHARACTER_SECONDS = 1e-4, 3e-8  # per text and per character, in numpy
WORD_CACHE_SIZE = 65_536  # path words are cached because the pages of a site share most of them
_SCRATCH_KEPT_BYTES_MAX = 64 << 20  # larger working memory is freed after the batch that needed it
_SCRATCH_BYTES_MIN = (24_640, 131_136)  # for folded and for canonical text; enough for most pages


def fingerprint(body: bytes) -> bytes:
    """Return an 8-byte fingerprint of a body. Bodies with equal fingerprints are taken to be equal."""
    return mmh3.mmh3_x64_128_digest(body)[:8]


def cut_into_buckets(signatures: NDArray[np.uint8], scheme: Scheme) -> NDArray[np.uint8]:
    """Cut signatures, uint8[n, bins], into buckets, uint8[n, bands, 1 + rows], whose first byte is the band."""
    out = np.empty((signatures.shape[0], scheme.bands, scheme.bucket_bytes), dtype=np.uint8)
    out[:, :, 0] = np.arange(scheme.bands, dtype=np.uint8)
    out[:, :, 1:] = signatures.reshape(-1, scheme.bands, scheme.rows)
    return out


class SketchBatch(msgspec.Struct, frozen=True, eq=False):
    """Sketches of n texts as columns. A text without tokens has no shingles and must be rejected by the caller."""

    documents: list[bytes]  # 16 bytes each
    signatures: NDArray[np.uint8]  # [n, bins]
    samples: NDArray[np.uint32]  # [n, sample_max]; row i contains sample_sizes[i] values, ascending, then zeros
    sample_sizes: NDArray[np.int64]
    exponents: NDArray[np.int64]  # sample i contains the shingles that are divisible by 2**exponents[i]
    shingles: NDArray[np.int64]  # numbers of distinct shingles; 32-bit collisions hide about 5 of 200,000
    tokens: NDArray[np.int64]
    indexed_words: NDArray[np.uint32]  # [n, words_max]; row i contains indexed_words_per_text[i] hashes
    indexed_words_per_text: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.documents)

    def sketch(self, i: int) -> Sketch:
        """Return a copy of the i-th sketch."""
        return Sketch(
            document=self.documents[i],
            signature=self.signatures[i].copy(),
            sample=self.samples[i, : self.sample_sizes[i]].copy(),
            exponent=int(self.exponents[i]),
            shingles=int(self.shingles[i]),
            tokens=int(self.tokens[i]),
        )


class Comparison(msgspec.Struct, frozen=True):
    """The similarity of documents a and b, with standard errors, which are 0 if the figures are exact."""

    resemblance: float
    resemblance_error: float
    containment: float  # the share of a's shingles that b contains
    containment_error: float
    contained: float  # the share of b's shingles that a contains
    contained_error: float
    exact: bool  # whether the figures were counted instead of estimated


class Comparisons(msgspec.Struct, frozen=True, eq=False):
    """Comparisons of n pairs as columns."""

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
        """Return the i-th comparison."""
        columns: tuple[NDArray[Any], ...] = msgspec.structs.astuple(self)
        return Comparison(*(column[i].item() for column in columns))


def to_batch(sketches: Sequence[Sketch]) -> SketchBatch:
    """Return sketches of the same scheme as a batch, without words to index."""
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
        indexed_words=np.zeros((n, 0), dtype=np.uint32),
        indexed_words_per_text=np.zeros(n, dtype=np.int64),
    )


def compare_pairs(
    a: SketchBatch, b: SketchBatch, rows_a: NDArray[np.int64], rows_b: NDArray[np.int64]
) -> Comparisons:
    """Compare row rows_a[i] of `a` with row rows_b[i] of `b`, for each i. Both batches must have the same scheme.

    The figures are exact if both documents have at most `sample_max` shingles. A pair takes less than a microsecond.
    """
    from streams.sketch.similarity import compare_columns

    figures, exact = np.empty((6, len(rows_a))), np.empty(len(rows_a), dtype=np.bool_)
    if len(rows_a):
        columns_a, columns_b = (
            (batch.signatures, batch.samples, batch.sample_sizes, batch.exponents, batch.shingles) for batch in (a, b)
        )
        compare_columns(rows_a, rows_b, columns_a, columns_b, figures, exact)
    columns: list[NDArray[Any]] = [*figures, exact]
    return Comparisons(*columns)


def compare(a: Sketch, b: Sketch) -> Comparison:
    """Compare two sketches of the same scheme. For many pairs, `compare_pairs` is many times as fast."""
    return compare_with_each(a, [b]).comparison(0)


def compare_with_each(sketch: Sketch, others: Sequence[Sketch]) -> Comparisons:
    """Compare one sketch (as a) with each of the others (as b)."""
    n = len(others)
    return compare_pairs(to_batch([sketch]), to_batch(others), np.zeros(n, dtype=np.int64), np.arange(n))


class Sketcher:
    """Makes sketches of one scheme. Threads may share a sketcher: each has its own working memory."""

    def __init__(self, scheme: Scheme, tokens_max: int = TOKENS_MAX) -> None:
        self.scheme = scheme
        self.tokens_max = tokens_max
        self._digest_seed = scheme.seed & 0xFFFF_FFFF
        self._thread_local = threading.local()
        self._word_cache: dict[str, list[int]] = {}

    @cached_property
    def _parameters(self) -> Parameters:
        return derive(self.scheme, self.tokens_max)

    def sketch(self, text: str) -> Sketch:
        """Return the sketch of one text. For many texts, `sketch_batch` is several times as fast."""
        return self.sketch_batch([text]).sketch(0)

    def sketch_batch(self, texts: Sequence[str], words_max: int = 0) -> SketchBatch:
        """Return the sketches of texts, in order, with up to `words_max` words to index per text.

        Most of the work is done without the GIL.
        """
        documents, columns, must_normalise = self._sketch_columns(texts, words_max)
        if rows := np.flatnonzero(must_normalise).tolist():
            normalised_texts = [unicode_table.normalise(texts[i]) for i in rows]
            new_documents, new_columns, _ = self._sketch_columns(normalised_texts, words_max, normalised=True)
            arrays: tuple[NDArray[Any], ...] = columns
            for column, values in zip(arrays, new_columns, strict=True):
                column[rows] = values
            for i, document in zip(rows, new_documents, strict=True):
                documents[i] = document
        return SketchBatch(documents, *columns)

    def shingle_hashes(self, text: str) -> NDArray[np.uint32]:
        """Return the hashes of all distinct shingles of a text, ascending. Samples are drawn from these hashes."""
        return self.shingles_and_words(text)[0]

    def words_and_counts(self, text: str) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the hashes of the distinct words of a text, ascending, and the count of each word."""
        if (hashes := self._token_hashes_in_numpy(text)) is not None:
            return numpy_tokens.count_distinct(_word_hashes(hashes))
        return self._count_words(*self._tokenise(text)[:2])

    def shingles_and_words(self, text: str) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
        """Return the results of `shingle_hashes` and `words_and_counts`, from one pass."""
        if (hashes := self._token_hashes_in_numpy(text)) is not None:
            shingles = numpy_tokens.shingle_hashes(hashes, self._parameters)
            return shingles, *numpy_tokens.count_distinct(_word_hashes(hashes))
        scratch, tokens, _ = self._tokenise(text)
        count = _kernel().hash_shingles(tokens, tuple(self._parameters), tuple(scratch))
        return np.sort(scratch.distinct[:count]), *self._count_words(scratch, tokens)

    def _token_hashes_in_numpy(self, text: str) -> NDArray[np.uint64] | None:
        """Return the hashes of the tokens of a text, or None if the kernel must hash them."""
        if numba_use.is_worthwhile(_TEXT_SECONDS + _CHARACTER_SECONDS * len(text)):
            return None
        return numpy_tokens.token_hashes(text, self._parameters)

    def _count_words(self, scratch: Scratch, tokens: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        words, counts = _kernel().count_runs(np.sort(_word_hashes(scratch.hashes[:tokens])))
        return words, counts

    def token_hashes(self, text: str) -> list[int]:
        """Return the word hash of each token of a text, in order."""
        hashes = self._token_hashes_in_numpy(text)
        if hashes is None:
            scratch, tokens, _ = self._tokenise(text)
            hashes = scratch.hashes[:tokens]
        word_hashes: list[int] = _word_hashes(hashes).tolist()
        return word_hashes

    def hash_words(self, words: Iterable[str]) -> Mapping[str, list[int]]:
        """Return the `token_hashes` of each word. The result is a cache, so it may also contain other words."""
        words, cache = set(words), self._word_cache
        missing = [word for word in words if word not in cache]
        if missing:
            if len(cache) + len(missing) > WORD_CACHE_SIZE:
                cache, missing = {}, list(words)
            cache.update(self._hash_uncached(missing))
            self._word_cache = cache
        return cache

    def _hash_uncached(self, words: list[str]) -> dict[str, list[int]]:
        """Hash ASCII words together, because a call of the kernel takes longer than hashing a word."""
        plain = [word for word in words if word.isascii() and word.isalnum()]
        hashes: dict[str, list[int]] = {}
        for start in range(0, len(plain), self.tokens_max):
            chunk = plain[start : start + self.tokens_max]
            hashes.update(zip(chunk, ([word_hash] for word_hash in self.token_hashes(" ".join(chunk))), strict=True))
        hashes.update((word, self.token_hashes(word)) for word in words if word not in hashes)
        return hashes

    def canonical_text(self, text: str) -> str:
        """Return the canonical tokens of a text, separated by spaces. Texts with equal tokens are one document."""
        scratch, _, end = self._tokenise(text)
        return scratch.canonical[: max(end - 1, 0)].tobytes().decode()

    def _tokenise(self, text: str) -> tuple[Scratch, int, int]:
        """Return working memory with the tokens, the number of tokens and the end of the canonical bytes."""
        for normalised in (False, True):
            data = (unicode_table.normalise(text) if normalised else text).encode("utf-8", "replace")
            scratch = self._scratch(len(data), len(data))
            tokens, end, must_normalise = _kernel().tokenise(
                np.frombuffer(data, dtype=np.uint8),
                0,
                len(data),
                text.isascii(),
                normalised,
                0,
                tuple(self._parameters),
                tuple(scratch),
            )
            if not must_normalise:
                break
        return scratch, tokens, end

    def _sketch_columns(
        self, texts: Sequence[str], words_max: int, *, normalised: bool = False
    ) -> tuple[list[bytes], SketchColumns, NDArray[np.bool_]]:
        """Return the document ids and columns of texts, and which of the texts must be normalised first."""
        kernel, n = _kernel(), len(texts)
        encoded = [text.encode("utf-8", "replace") for text in texts]
        sizes = np.fromiter(map(len, encoded), dtype=np.int64, count=n)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        is_ascii = np.fromiter((text.isascii() for text in texts), dtype=np.bool_, count=n)
        scratch = self._scratch(int(sizes.max(initial=0)), int(offsets[-1]) + n)
        sample_sizes, exponents, shingles, tokens, per_text, ends = (np.zeros(n, dtype=np.int64) for _ in range(6))
        columns = kernel.SketchColumns(
            np.zeros((n, self.scheme.bins), dtype=np.uint8),
            np.zeros((n, self.scheme.sample_max), dtype=np.uint32),
            sample_sizes,
            exponents,
            shingles,
            tokens,
            np.zeros((n, words_max), dtype=np.uint32),
            per_text,
        )
        must_normalise = np.zeros(n, dtype=np.bool_)
        data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        kernel.sketch_texts(
            data, offsets, is_ascii, normalised,
            tuple(self._parameters), tuple(scratch), tuple(columns), ends, must_normalise,
        )  # fmt: skip
        bounds = pairwise([0, *ends.tolist()])
        canonical = scratch.canonical.data
        documents = [mmh3.mmh3_x64_128_digest(canonical[start:end], self._digest_seed) for start, end in bounds]
        if self._thread_local.scratch_bytes > _SCRATCH_KEPT_BYTES_MAX:
            del self._thread_local.scratch
        return documents, columns, must_normalise

    def _scratch(self, text_bytes: int, batch_bytes: int) -> Scratch:
        """Return working memory for texts of at most `text_bytes` and batches of at most `batch_bytes`."""
        # Folding lengthens a text by at most half, as a two-byte letter may become a three-byte letter. Canonical
        # text also has a space after each word. The kernel accesses eight bytes at a time, so it needs extra bytes.
        folded_size, canonical_size = text_bytes * 3 // 2 + 64, batch_bytes * 2 + 64
        scratch: Scratch | None = getattr(self._thread_local, "scratch", None)
        if scratch is None or folded_size > scratch.folded.size or canonical_size > scratch.canonical.size:
            sizes = (scratch.folded.size, scratch.canonical.size) if scratch else _SCRATCH_BYTES_MIN
            folded_size, canonical_size = max(folded_size, sizes[0]), max(canonical_size, sizes[1])
            tokens_max = folded_size // 2 + 1
            slots_max = max(16, 1 << (2 * tokens_max - 1).bit_length())
            scratch = _kernel().Scratch(
                folded=np.zeros(folded_size, dtype=np.uint8),
                bounds=np.zeros(2 * tokens_max + 2, dtype=np.uint32),
                hashes=np.zeros(tokens_max, dtype=np.uint64),
                slots=np.zeros(slots_max, dtype=np.uint32),
                counts=np.zeros(slots_max, dtype=np.uint32),
                distinct=np.zeros(tokens_max + 1, dtype=np.uint32),
                winners=np.zeros(self.scheme.bins, dtype=np.uint64),
                canonical=np.zeros(canonical_size, dtype=np.uint8),
            )
            self._thread_local.scratch = scratch
            self._thread_local.scratch_bytes = sum(array.nbytes for array in scratch)
        return scratch


def _word_hashes(token_hashes: NDArray[np.uint64]) -> NDArray[np.uint32]:
    return (token_hashes >> np.uint64(32)).astype(np.uint32)


def _kernel() -> Any:
    from streams.sketch import kernel

    return kernel
