"""End the process at once, the only safe response to an error while an input is not yet acknowledged."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

EXIT_RESTART = 75  # EX_TEMPFAIL of sysexits.h, like `Exit.RESTART`: a supervisor should restart the worker


def end_process(code: int = EXIT_RESTART) -> NoReturn:
    """Exit without cleaning up, because Faust's clean-up would acknowledge unprocessed messages."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
