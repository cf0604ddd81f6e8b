"""The data on which analyses run, as of one sweep, and the results that are stored for it.

Results belong to a sweep. They are computed from the captures of this sweep and of earlier committed sweeps, but with
the current clusters: a page of a later sweep may have joined two clusters. A later commit does not discard stored
results. Commands that remove captures delete the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Generic, NamedTuple, TypeVar

import mmh3
import msgspec

from state import analyses, meta
from state.changes import Changes
from state.codecs.analysis_row import LINE_BYTES_MAX, AnalysisKey
from state.model import Sweep, SweepState
from state.rows import RowReader, RowStore
from streams.analyses.current_pages import create_pages
from streams.analyses.sql_engine import SqlEngine
from streams.errors import InputError
from streams.settings import AnalysisSettings, Settings

R = TypeVar("R")
_MIB = 1 << 20
# The settings that do not change results.
_IGNORED_SETTINGS = frozenset({"sql_engine", "memory_mib", "threads", "results_mib_max", "at_commit"})


class Analysis(msgspec.Struct, Generic[R], frozen=True):
    """An analysis whose results can be stored."""

    name: str  # the name of its command
    method: str  # identifies what else, apart from the settings, changes the results, such as options
    result_type: type[R]
    compute: Callable[[Session], Sequence[R]]


class Progress(NamedTuple):
    """Functions that are called while a session works."""

    # Called with an activity, such as "computing mirrors", when it begins.
    begin: Callable[[str], None] = lambda _: None
    # Called with the number of rows that were exported since the last call.
    count_rows: Callable[[int], None] = lambda _: None


class Session:
    """The data as of one sweep. `at` returns the session of another sweep of the same data."""

    def __init__(self, source: Source, sweep: Sweep) -> None:
        self.sweep = sweep
        self.settings: AnalysisSettings = source.settings.analyses
        self.counters: Counter[str] = Counter()  # how often each limit was reached
        self._source = source

    @property
    def engine(self) -> SqlEngine:
        """The SQL engine, with the tables of the data set and `pages` as of the sweep. The first use opens it."""
        return self._source.engine_at(self.sweep)

    def at(self, sweep_name: str) -> Session:
        """Return the session of another sweep. Raise InputError if it does not exist or is not committed."""
        return Session(self._source, self._source.find_sweep(sweep_name))

    def sweep_names(self) -> dict[int, str]:
        """Return the names of the committed sweeps up to this session's sweep, by number."""
        sweeps = self._source.committed()
        return {sweep.number: sweep.name for sweep in sweeps if sweep.number <= self.sweep.number}

    def results(self, analysis: Analysis[R]) -> list[R]:
        """Return the results of an analysis. Compute them unless results for the current data are stored."""
        key = AnalysisKey(self.sweep.number, analysis.name, analysis.method)
        stored = self._source.load(key, analysis.result_type)
        if stored is not None:
            results, counters = stored
        else:
            results, counters = self._compute(key, analysis)
        self.counters.update(counters)
        return results

    def _compute(self, key: AnalysisKey, analysis: Analysis[R]) -> tuple[list[R], dict[str, int]]:
        session = Session(self._source, self.sweep)
        self._source.engine_at(self.sweep)
        self._source.progress.begin(f"computing {analysis.name}")
        results = list(analysis.compute(session))
        lines = [msgspec.json.encode(result) for result in results]
        self._source.new_results.append(NewResults(key, lines, dict(session.counters)))
        return results, dict(session.counters)


class NewResults(msgspec.Struct, frozen=True):
    """The results of an analysis that are not stored yet."""

    key: AnalysisKey
    lines: list[bytes]  # JSON, one result per line
    counters: dict[str, int]

    def is_storable(self, results_mib_max: int) -> bool:
        """Return whether the results are small enough to be stored."""
        sizes = list(map(len, self.lines))
        return sum(sizes) <= results_mib_max * _MIB and max(sizes, default=0) < LINE_BYTES_MAX


class Source:
    """The data of a session: a state or an export."""

    def __init__(
        self,
        settings: Settings,
        sweeps: Sequence[Sweep],
        open_engine: Callable[[Source], SqlEngine],
        progress: Progress,
        reader: RowReader | None = None,
    ) -> None:
        """Load stored results with `reader`, if given. Call `open_engine` once, before the first analysis."""
        self.settings, self.sweeps, self.progress = settings, list(sweeps), progress
        self.new_results: list[NewResults] = []
        self._open_engine, self._reader = open_engine, reader
        self._engine: SqlEngine | None = None
        self._sweep_of_pages = 0  # the sweep of the table `pages`; 0 if there is no table

    def find_sweep(self, name: str | None) -> Sweep:
        """Return the committed sweep with this name, or the newest one. Raise InputError if it does not exist."""
        if name is None:
            committed = self.committed()
            if not committed:
                raise InputError("no sweep is committed", "commit a sweep with `lostfound sweep commit`")
            return committed[-1]
        sweep = next((sweep for sweep in self.sweeps if sweep.name == name), None)
        if sweep is None:
            raise InputError(f"sweep {name!r} does not exist", "list all sweeps with `lostfound sweep list`")
        if sweep.state is not SweepState.COMMITTED:
            raise InputError(f"sweep {name!r} is open", "commit it with `lostfound sweep commit`")
        return sweep

    def committed(self) -> list[Sweep]:
        """Return the committed sweeps, in order of number."""
        return [sweep for sweep in self.sweeps if sweep.state is SweepState.COMMITTED]

    def engine_at(self, sweep: Sweep) -> SqlEngine:
        """Return the engine, with the table `pages` as of a sweep."""
        if self._engine is None:
            self._engine = self._open_engine(self)
            self.find_sweep(sweep.name)  # raises InputError if the sweep was cancelled before the state was exported
        if self._sweep_of_pages != sweep.number:
            self.progress.begin("selecting pages")
            create_pages(self._engine, sweep.number, [s.number for s in self.sweeps if s not in self.committed()])
            self._sweep_of_pages = sweep.number
        return self._engine

    def load(self, key: AnalysisKey, result_type: type[R]) -> tuple[list[R], dict[str, int]] | None:
        """Return stored results and their counters, or None if no results are stored for the current data."""
        reader = self._reader
        header = analyses.header(reader, key) if reader is not None else None
        if reader is None or header is None or header.origin != self._origin(reader, key.sweep):
            return None
        decoder = msgspec.json.Decoder(result_type)
        try:
            return [decoder.decode(line) for line in analyses.lines(reader, key)], header.counters
        except msgspec.DecodeError:  # a different build of this version stored different fields
            return None

    def store_new_results(self, store: RowStore) -> list[AnalysisKey]:
        """Store the new results. Return the keys of results that are too large."""
        too_large = []
        for results in self.new_results:
            if not results.is_storable(self.settings.analyses.results_mib_max):
                too_large.append(results.key)
                continue
            changes, origin = Changes(), self._origin(store, results.key.sweep)
            analyses.put(store, changes, results.key, results.lines, origin=origin, counters=results.counters)
            store.write(changes, sync=True)
        return too_large

    def _origin(self, reader: RowReader, sweep_number: int) -> str:
        """Return a hash of everything from which the results of a sweep are computed."""
        settings = msgspec.structs.asdict(self.settings.analyses)
        inputs = (
            version("lostfound"),
            meta.read_scheme(reader).id,
            meta.threshold(reader),
            sorted((name, value) for name, value in settings.items() if name not in _IGNORED_SETTINGS),
            [(s.number, s.name, s.captures) for s in self.committed() if s.number <= sweep_number],
        )
        return mmh3.hash_bytes(msgspec.json.encode(inputs)).hex()
