"""Run `lostfound` in copies of one process, because importing its libraries takes longer than most commands.

python -m tests.docs.command_server SOCKET

The script `lostfound` (see `write_client`) sends its arguments, its folder, its environment and its standard streams to
this server. The server forks, and the copy runs the command and returns the exit code.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import NoReturn

from streams import settings
from streams.cli import main
from streams.operators.sketch import SketchOperator, SketchTask
from streams.page import Page

CLIENT = """#!{python} -IS
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
connection.sendall(request)
sys.exit(int(connection.recv(16) or b"70"))  # nothing is received if the command was killed
"""


def write_client(path: Path, address: Path) -> None:
    """Write a script that runs its command in the server at `address`."""
    path.write_text(CLIENT.format(python=sys.executable, address=str(address)))
    path.chmod(0o755)


def load_libraries() -> None:
    """Import what most commands import, and load the compiled functions. Start no thread: a fork would lose it."""
    for name in ("duckdb", "pyarrow.parquet", "streams.cli.app", "streams.engine.ingest", "streams.query"):
        importlib.import_module(name)
    defaults = settings.load()
    body = b"<html><body><p>some words, and <a href=/other>a link</a></p></body></html>"
    operator = SketchOperator(defaults.scheme, defaults.policy, defaults.limits)
    operator(SketchTask(1, [Page(url="https://a.example/", time=0, body=body, mime="text/html")]))


def serve(address: str) -> None:
    """Run one command per connection until this process is killed."""
    load_libraries()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    running: set[int] = set()
    while True:
        connection, _ = listener.accept()
        process = os.fork()
        if process == 0:
            listener.close()
            run_command(connection)
        connection.close()
        running.add(process)
        running -= {ended for ended in running if os.waitpid(ended, os.WNOHANG)[0]}


def run_command(connection: socket.socket) -> NoReturn:
    """Run the command of a client in another copy, return its exit code to the client, and exit."""
    command = os.fork()
    if command == 0:
        try:
            receive_request(connection)
            main()
        except SystemExit as exited:
            sys.stdout.flush()
            os._exit(int(exited.code or 0))
        finally:
            os._exit(70)
    _, status = os.waitpid(command, 0)
    connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def receive_request(connection: socket.socket) -> None:
    """Take over the standard streams, the arguments, the folder and the environment of a client."""
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
        os.close(stream)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv, folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


if __name__ == "__main__":
    serve(sys.argv[1])
