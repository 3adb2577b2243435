"""What connects ranks in tests: the MPIs that are on this machine, and network namespaces that stand for hosts."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from harness import SOURCE, Server

CLONE_NEWNET = 0x40000000


class Mpi:
    """An MPI: its mpirun, and a folder with a libespalier_mpi.so that was built against it. `kind`: "OpenMPI" or "MPICH"."""

    WORDS = {"OpenMPI": "Open MPI", "MPICH": "HYDRA"}  # of mpirun --version

    def __init__(self, kind, programs, library):
        self.kind, self.programs, self.library = kind, programs, library

    @classmethod
    def find(cls, kind):
        """An Mpi, or the sentence that says what is missing. Looked at: the folder of $MPICXX, that of this Python (where `pip install
        mpich` puts it), and that of the mpirun on the path."""
        programs = filter(None, (shutil.which(os.environ.get("MPICXX", "")), sys.executable, shutil.which("mpirun")))
        for folder in (pathlib.Path(program).parent for program in programs):
            if (folder / "mpirun").exists() and cls.WORDS[kind] in cls.output(folder / "mpirun", "--version"):
                return cls(kind, folder, cls.build(folder / "mpicxx"))
        return f"there is no {kind} here: its mpirun is neither on the path nor beside this Python nor beside $MPICXX"

    @staticmethod
    def output(*command):
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout

    @staticmethod
    def build(compiler):
        folder = tempfile.TemporaryDirectory()
        built = subprocess.run([SOURCE / "tools" / "mpi.sh", folder.name], env={**os.environ, "MPICXX": str(compiler)}, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        return folder

    def words(self, processes):
        """What stands before the program's command line."""
        mine = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none") if self.kind == "OpenMPI" else ()
        return [str(self.programs / "mpirun"), *mine, "-np", str(processes)]

    @property
    def environment(self):
        return {"ESPALIER_DEVICE_DIR": self.library.name}


class TwoHosts:
    """Two network namespaces joined by a veth pair, 10.77.0.1 and 10.77.0.2, until close(). there: whether they may be made here."""

    ADDRESSES = ("10.77.0.1", "10.77.0.2")

    def __init__(self):
        self.names = [f"es{os.getpid()}{letter}" for letter in "ab"]
        a, b = self.names
        self.there = shutil.which("ip") is not None and os.geteuid() == 0 and all(self.ip(*command.split()) for command in (
            f"netns add {a}", f"netns add {b}", f"link add es0 netns {a} type veth peer name es0 netns {b}",
            *(f"-n {name} addr add {address}/24 dev es0" for name, address in zip(self.names, self.ADDRESSES)),
            *(f"-n {name} link set {device} up" for name in self.names for device in ("lo", "es0"))))
        if not self.there:
            self.close()

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0

    def words(self, host):
        """What stands before a command that shall run on that host."""
        return ["ip", "netns", "exec", self.names[host]]

    def cut(self):
        assert self.ip("-n", self.names[1], "link", "set", "es0", "down")

    def mend(self):
        assert self.ip("-n", self.names[1], "link", "set", "es0", "up")

    def crossed(self):
        """Bytes that the first host sent over the pair."""
        return int(Mpi.output(*self.words(0), "cat", "/sys/class/net/es0/statistics/tx_bytes"))

    def agent(self, folder):
        """OpenMPI's rsh agent: "ssh" that enters the namespace with the address; each has a host name of its own there."""
        path = pathlib.Path(folder) / "agent.sh"
        path.write_text(f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1; shift
case $host in {self.ADDRESSES[0]}) name={self.names[0]};; *) name={self.names[1]};; esac
exec ip netns exec $name unshare --uts sh -c "hostname $name; $*"
""")
        path.chmod(0o755)
        return path

    def close(self):
        for name in self.names:
            self.ip("netns", "del", name)

    @contextlib.contextmanager
    def inside(self, host):
        """Sockets that this thread makes meanwhile are that host's."""
        system = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{self.names[host]}") as theirs:
            if system.setns(theirs.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                if system.setns(own.fileno(), CLONE_NEWNET) != 0:
                    os.abort()  # this thread would go on in the wrong network


class ServerOnHost(Server):
    """A server in one of two namespaces; `launcher`: words between them and its command."""

    def __init__(self, hosts, host, *flags, launcher=(), **more):
        self.hosts, self.host = hosts, host
        super().__init__(*flags, launcher=(*hosts.words(host), *launcher), **more)

    def connect(self, timeout=60):
        connection = super().connect(timeout)
        with self.hosts.inside(self.host):
            connection.connect()
        return connection

    def open_stream(self, *words, **more):
        with self.hosts.inside(self.host):
            return super().open_stream(*words, **more)
