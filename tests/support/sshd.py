"""A real OpenSSH server on loopback, with keys of its own, for the account that runs the tests."""

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_connection
from typing import Self

from tests.support.debian import program
from tests.support.scratch import free_port, wait_until

CONFIGURATION = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/client_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv none
SetEnv "HOME={folder}/home" "PATH={path}"
KexAlgorithms curve25519-sha256
MaxStartups 100
LogLevel ERROR
"""
# HOME is empty: the start-up files of the account, which its shell reads for each connection, may do anything and take long.
# The exchange of keys that was agreed on by itself takes eight times as long, and is not what is tested.
# Ends the server when we are gone, however that happened: nobody writes to its input, which ends with us.
KEEPER = '"$@" & server=$!; read -r _; kill "$server"; wait "$server"'


class SshServer:
    """A server of the test's own, and how a client reaches it."""

    def __init__(self, folder: Path) -> None:
        self._sshd = program("sshd", packages=["openssh-server"])
        self._keygen = program("ssh-keygen", packages=["openssh-client"])
        self.port = free_port()
        self._folder = folder

    @classmethod
    @contextmanager
    def running(cls, folder: Path) -> Iterator[Self]:
        """Start a server and end it afterwards."""
        server = cls(folder)
        server._prepare()
        words = [server._sshd, "-D", "-E", str(folder / "log"), "-f", str(folder / "sshd_config")]
        process = subprocess.Popen(
            ["/bin/sh", "-c", KEEPER, "keeper", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until(server._answers, what=f"sshd answers at port {server.port}", seconds=30)
            yield server
        finally:
            process.communicate(timeout=30)

    @property
    def command(self) -> str:
        """How git calls ssh to get in."""
        options = ["IdentitiesOnly=yes", f"UserKnownHostsFile={self._folder}/known_hosts", "StrictHostKeyChecking=yes"]
        words = ["ssh", "-F", "none", "-i", str(self._folder / "client_key"), *(f"-o{one}" for one in options)]
        return " ".join(words)

    def url(self, path: Path) -> str:
        """Return the URL of a repository by way of this server."""
        return f"git+ssh://{getpass.getuser()}@127.0.0.1:{self.port}{path}"

    def _prepare(self) -> None:
        for name in ("host_key", "client_key"):
            words = [self._keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(self._folder / name)]
            subprocess.run(words, check=True, capture_output=True)
        host_key = (self._folder / "host_key.pub").read_text().rsplit(" ", 1)[0]
        (self._folder / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {host_key}\n")
        (self._folder / "home").mkdir()
        settings = CONFIGURATION.format(port=self.port, folder=self._folder, path=os.environ["PATH"])
        (self._folder / "sshd_config").write_text(settings)
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where sshd gives up its rights

    def _answers(self) -> bool:
        try:
            with create_connection(("127.0.0.1", self.port), timeout=1) as line:
                return line.recv(4) == b"SSH-"
        except OSError:
            return False
