"""Ranks on several hosts: over OpenMPI and MPICH, between network namespaces, over a link that stops passing bytes. Their answers are
one process's; whoever is lost, cut off or started otherwise ends the group on all hosts, with a line."""
import json
import os
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

from harness import BINARY, MODEL, Server, descendants_of
from rank_hosts import Mpi, ServerOnHost, TwoHosts
from redis_server import Relay
from test_devices import answers, mixed_bodies
from test_ranks import DEFAULT, MODELS, free_port, wait_until_gone

PATIENCE = 15  # seconds: a loss is told within 10, on a machine that is not busy with other things
KINDS = ((), DEFAULT)
# Flags of one process, and of ranks beside it: with requests that share prefixes, are constrained and drawn, with guesses, in a pool
# that sends sequences back.
ALL_AT_ONCE = ("--speculative-algorithm", "tree", "--max-total-tokens", "256", "--schedule-conservativeness", "0.1")
ENDLESS = {"input_ids": [3, 4, 5], "stream": True, "sampling_params": {"max_new_tokens": 400, "ignore_eos": True}}

_alone = {}


def bodies():
    """Tokens chosen in every way, and answers that outgrow a small pool together."""
    yield from mixed_bodies()
    for i in range(8):
        sampling = {"temperature": 0} if i % 2 else {"temperature": 1, "sampling_seed": i}
        yield {"input_ids": list(range(3 + i // 2, 30)), "sampling_params": {**sampling, "max_new_tokens": 60, "ignore_eos": True}}


def alone(*flags):
    """What one process answers to bodies()."""
    if flags not in _alone:
        with Server(*flags) as one:
            _alone[flags] = answers(one, list(bodies()))
    return _alone[flags]


def ranks_below(pid, count):
    """The servers that a launcher has started, in the order of their numbers; of MPI's processes of one rank, of their ranks."""
    ranks = [each for each in descendants_of(pid) if b"serve" in pathlib.Path(f"/proc/{each}/cmdline").read_bytes()]
    assert len(ranks) == count, ranks
    return sorted(ranks)


class RankCase(unittest.TestCase):
    def expect_one_processs_answers(self, server, talk, *flags):
        self.assertEqual(server.get("/get_server_info").json["ranks_talk"], talk)
        wanted = list(bodies())
        self.assertEqual(answers(server, wanted), alone(*flags), flags)
        self.assertEqual(answers(server, wanted), alone(*flags), (flags, "out of the tree"))
        self.assertGreater(server.metric("espalier_prefix_cache_hit_tokens_total"), 0)
        if "--max-total-tokens" in flags:
            self.assertGreater(server.metric("espalier_preemptions_total"), 0)

    def streaming(self, server):
        """Returns in the middle of an answer."""
        stream = server.open_stream("/generate", ENDLESS)
        self.addCleanup(stream.close)
        self.assertIn(b"200", stream.recv(100))

    def expect_end(self, server, line, began=None):
        """A process that ends by itself, with a code that is not 0 and the line once."""
        began = began or time.monotonic()
        code = server.process.wait(max(0.1, began + PATIENCE - time.monotonic()))
        self.assertNotEqual(code, 0)
        said = server.text().splitlines()
        lines = [each for each in said if "the group ends" in each or each.startswith("espalier: ") and " ready on " not in each]
        self.assertEqual(len(lines), 1, server.text())
        self.assertRegex(lines[0], line)


class MpiCase:
    """Ranks that an mpirun starts."""
    KIND = None

    @classmethod
    def setUpClass(cls):
        cls.mpi = Mpi.find(cls.KIND)
        if isinstance(cls.mpi, str):
            raise unittest.SkipTest(cls.mpi)
        cls.addClassCleanup(cls.mpi.library.cleanup)

    def start(self, processes, *flags, **more):
        server = Server(*flags, "--dist-backend", "mpi", launcher=self.mpi.words(processes), env=self.mpi.environment, **more)
        self.addCleanup(server.kill)
        return server

    def test_answers_are_one_processs(self):
        for kind in KINDS:
            for processes, size, talk, flags in ((2, 2, "mpi", ()), (4, 4, "mpi", ()), (4, 4, "mpi", ALL_AT_ONCE),
                                                 (2, 4, "shared memory and mpi", ALL_AT_ONCE)):
                with self.subTest(kind=kind, processes=processes, size=size, flags=flags):
                    server = self.start(processes, *kind, *flags, "--tp-size", str(size))
                    self.expect_one_processs_answers(server, talk, *kind, *flags)
                    ranks = descendants_of(server.process.pid)
                    self.assertGreaterEqual(len(ranks), size)
                    server.stop()
                    self.assertTrue(wait_until_gone(ranks))

    def test_a_rank_that_is_killed_ends_all(self):
        server = self.start(2, "--tp-size", "2")
        self.streaming(server)
        ranks = ranks_below(server.process.pid, 2)
        os.kill(ranks[1], signal.SIGKILL)
        self.assertNotEqual(server.process.wait(PATIENCE), 0)
        # MPICH's mpirun ends the others so quickly that it may name one of them.
        self.assertRegex(server.text(), r"process rank 1 with PID|rank 1 of 2|Killed \(signal 9\)")
        self.assertTrue(wait_until_gone(ranks))

    def test_a_rank_that_is_frozen_for_a_while_is_named_and_goes_on(self):
        server = self.start(2, "--tp-size", "2")
        body = {"input_ids": [3, 4, 5], "sampling_params": {"temperature": 0, "max_new_tokens": 9}}
        expected = server.generate(**body)["output_ids"]
        frozen = ranks_below(server.process.pid, 2)[1]
        os.kill(frozen, signal.SIGSTOP)
        with server.open_stream("/generate", body) as waiting:
            began = time.monotonic()
            while "waits for rank 1 of 2" not in server.text() and time.monotonic() < began + PATIENCE:
                time.sleep(0.05)
            self.assertRegex(server.text(), r"error .* no step came to its end .* waits for rank 1 of 2")
            os.kill(frozen, signal.SIGCONT)
            self.assertIn(b"200", waiting.recv(100))
        self.assertEqual(server.generate(**body)["output_ids"], expected)

    def test_a_rank_that_stays_frozen_ends_all(self):
        """Between requests, in the middle of one; the process that answers, and the other."""
        for frozen, busy in ((1, True), (1, False), (0, False)):
            with self.subTest(rank=frozen, busy=busy):
                server = self.start(2, "--tp-size", "2")
                if busy:
                    self.streaming(server)
                ranks = ranks_below(server.process.pid, 2)
                os.kill(ranks[frozen], signal.SIGSTOP)
                self.assertNotEqual(server.process.wait(PATIENCE), 0)
                told = [line for line in server.text().splitlines() if "the group ends" in line]
                self.assertEqual(len(told), 1, server.text())
                self.assertRegex(told[0], rf"rank {frozen} of 2 \(pid {ranks[frozen]}, host .*\) has not been heard of for .*"
                                 + ("bytes\\) waits for it" if busy else ""))
                self.assertTrue(wait_until_gone(ranks), server.text())

    def test_a_rank_that_is_frozen_among_several_of_a_process_ends_all_with_a_line_of_each(self):
        server = self.start(2, "--tp-size", "4")
        self.streaming(server)
        ranks = ranks_below(server.process.pid, 4)
        first = min(ranks)
        frozen = max(pid for pid in descendants_of(first) if pid in ranks)  # one that mpirun does not know
        os.kill(frozen, signal.SIGSTOP)
        self.assertNotEqual(server.process.wait(PATIENCE), 0)
        told = [line for line in server.text().splitlines() if "the group ends" in line]
        self.assertEqual(len(told), 2, server.text())
        for line in told:
            self.assertRegex(line, rf"rank [13] of 4 \(pid {frozen}, host .*has shown no sign of life")
        self.assertTrue(wait_until_gone(ranks), server.text())

    def test_ranks_that_compute_otherwise_do_not_come_together(self):
        other = ("-np", "1", BINARY, "serve", str(MODEL), "--tp-size", "2", *DEFAULT)
        one = Server("--tp-size", "2", ":", *other, wait=False, launcher=self.mpi.words(1), env=self.mpi.environment)
        self.addCleanup(one.kill)
        self.assertNotEqual(one.process.wait(PATIENCE), 0)
        self.assertRegex(one.text(), r"espalier: .*f32 activations.*int8 activations")


class OpenMpi(MpiCase, RankCase):
    KIND = "OpenMPI"


class Mpich(MpiCase, RankCase):
    KIND = "MPICH"


class NetworkNamespaces(RankCase):
    """Hosts with networks of their own, joined by one link."""

    @classmethod
    def setUpClass(cls):
        cls.hosts = TwoHosts()
        if not cls.hosts.there:
            raise unittest.SkipTest("network namespaces need root and iproute2")
        cls.addClassCleanup(cls.hosts.close)

    def pair(self, size, *flags):
        flags = ("--tp-size", str(size), "--nnodes", "2", "--dist-init-addr", f"{self.hosts.ADDRESSES[0]}:20000", *flags)
        other = ServerOnHost(self.hosts, 1, *flags, "--node-rank", "1", wait=False)
        self.addCleanup(other.kill)
        one = ServerOnHost(self.hosts, 0, *flags)
        self.addCleanup(one.kill)
        return one, other

    def test_answers_over_tcp_are_one_processs(self):
        for kind in KINDS:
            for size, talk, flags in ((2, "tcp", ()), (4, "shared memory and tcp", ALL_AT_ONCE)):
                with self.subTest(kind=kind, size=size, flags=flags):
                    before = self.hosts.crossed()
                    one, other = self.pair(size, *kind, *flags)
                    self.expect_one_processs_answers(one, talk, *kind, *flags)
                    self.assertGreater(self.hosts.crossed() - before, 1_000_000)
                    self.assertEqual(one.stop(), 0, one.text())
                    self.assertEqual(other.process.wait(PATIENCE), 0, other.text())

    def over_openmpi(self, *flags):
        """A server whose two processes mpirun starts, one on each host."""
        mpi = Mpi.find("OpenMPI")
        if isinstance(mpi, str):
            self.skipTest(mpi)
        self.addCleanup(mpi.library.cleanup)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        network = self.hosts.ADDRESSES[0].rsplit(".", 1)[0] + ".0/24"
        words = [*mpi.words(2), "--host", ",".join(self.hosts.ADDRESSES), "-x", "ESPALIER_DEVICE_DIR",
                 "--mca", "plm_rsh_agent", str(self.hosts.agent(folder.name)), "--mca", "btl", "tcp,self",
                 "--mca", "btl_tcp_if_include", network, "--mca", "oob_tcp_if_include", network]
        server = ServerOnHost(self.hosts, 0, *flags, "--dist-backend", "mpi", launcher=words, env=mpi.environment)
        self.addCleanup(server.kill)
        return server

    def test_answers_over_openmpi_are_one_processs(self):
        for kind in KINDS:
            for size, talk, flags in ((2, "mpi", ()), (4, "shared memory and mpi", ALL_AT_ONCE)):
                with self.subTest(kind=kind, size=size, flags=flags):
                    before = self.hosts.crossed()
                    server = self.over_openmpi(*kind, *flags, "--tp-size", str(size))
                    self.expect_one_processs_answers(server, talk, *kind, *flags)
                    self.assertGreater(self.hosts.crossed() - before, 1_000_000)
                    ranks = descendants_of(server.process.pid)
                    server.stop()
                    self.assertTrue(wait_until_gone(ranks))

    def test_a_link_that_goes_down_under_openmpi_ends_the_ranks_of_both_hosts(self):
        """mpirun itself waits for the other host's daemon, as it likes; the other host's line has no way to it."""
        for busy in (True, False):
            with self.subTest(busy=busy):
                server = self.over_openmpi("--tp-size", "4")
                if busy:
                    self.streaming(server)
                ranks = ranks_below(server.process.pid, 4)
                self.hosts.cut()
                try:
                    self.assertTrue(wait_until_gone(ranks, PATIENCE), server.text())
                finally:
                    self.hosts.mend()
                told = [line for line in server.text().splitlines() if "the group ends" in line]
                self.assertGreaterEqual(len(told), 1, server.text())
                self.assertRegex(told[0], r"ranks 2 to 3 of 4 \(pid .*has not been heard of for .*it is frozen, or the link to it is down")
                server.kill()

    def test_a_link_that_goes_down_ends_both_hosts_with_a_line_each(self):
        one, other = self.pair(4)
        self.streaming(one)
        self.hosts.cut()
        self.addCleanup(self.hosts.mend)
        began = time.monotonic()
        self.expect_end(one, r"ranks 2 to 3 of 4 .*the group ends", began)
        self.expect_end(other, r"ranks 0 to 1 of 4 .*the group ends", began)


class Losses(RankCase):
    def pair(self, size, *flags, through=None):
        """Two nodes on this machine; the second one reaches the first through a Relay."""
        address = f"127.0.0.1:{free_port()}"
        flags = ("--tp-size", str(size), "--nnodes", "2", *flags)
        one = Server(*flags, "--dist-init-addr", address, wait=False)
        self.addCleanup(one.kill)
        relay = Relay(int(address.rsplit(":", 1)[1]))
        self.addCleanup(relay.close)
        other = Server(*flags, "--dist-init-addr", f"127.0.0.1:{relay.port}", "--node-rank", "1", wait=False)
        self.addCleanup(other.kill)
        one.wait_ready()
        return one, other, relay

    def test_a_link_that_stalls_ends_both_hosts_with_a_line_each(self):
        for busy in (False, True):
            with self.subTest(busy=busy):
                one, other, relay = self.pair(4)
                one.generate(input_ids=[3, 4, 5], sampling_params={"max_new_tokens": 4})
                if busy:
                    self.streaming(one)
                relay.hold = True
                began = time.monotonic()
                self.expect_end(one, r"ranks 2 to 3 of 4 .*the group ends", began)
                self.expect_end(other, r"ranks 0 to 1 of 4 .*the group ends", began)

    def test_a_rank_that_is_frozen_ends_its_host_with_one_line(self):
        for frozen in (0, 2):
            with self.subTest(rank=frozen):
                server = Server("--tp-size", "3")
                self.addCleanup(server.kill)
                self.streaming(server)
                ranks = [server.process.pid, *descendants_of(server.process.pid)]
                os.kill(ranks[frozen], signal.SIGSTOP)
                began = time.monotonic()
                while "sign of life" not in server.text() and time.monotonic() < began + PATIENCE:
                    time.sleep(0.05)
                told = [line for line in server.text().splitlines() if "the group ends" in line]
                self.assertEqual(len(told), 1, server.text())
                self.assertRegex(told[0], rf"rank {frozen} of 3 \(pid {ranks[frozen]}, .*has shown no sign of life")
                self.assertTrue(wait_until_gone(ranks[1:] if frozen == 0 else ranks), server.text())

    def refused(self, first, second, *flags):
        """Two nodes, of which one has another model or other flags: both say so, with both sides of it."""
        address = f"127.0.0.1:{free_port()}"
        flags = ("--tp-size", "2", "--nnodes", "2", "--dist-init-addr", address, *flags)
        began = time.monotonic()
        nodes = [Server(*flags, *more, "--node-rank", str(i), model=model, wait=False) for i, (model, *more) in enumerate((first, second))]
        for node in nodes:
            self.addCleanup(node.kill)
        for node in nodes:
            self.expect_end(node, "this node \\(0\\) has .* but node 1|node 0 .* has .* but this node|started alike", began)

    def changed(self, folder, name, change):
        copy = shutil.copytree(MODEL, f"{folder}/{name}")
        change(copy)
        return copy

    def test_another_model_file_on_one_host_is_told_on_both(self):
        def other_weight(copy):
            with open(f"{copy}/model.safetensors", "r+b") as file:
                file.seek(-2, os.SEEK_END)
                file.write(b"\x12")

        def other_rotation(copy):
            file = pathlib.Path(copy, "config.json")
            file.write_text(json.dumps({**json.loads(file.read_text()), "rope_theta": 12345.0}))

        with tempfile.TemporaryDirectory() as folder:
            self.refused((MODEL,), (MODELS / "llama2-untied-mha",))
            self.refused((MODEL,), (self.changed(folder, "weight", other_weight),))
            self.refused((self.changed(folder, "rotation", other_rotation),), (MODEL,))

    def test_other_flags_on_one_host_are_told_on_both(self):
        for flags in (("--kv-cache-dtype", "int8"), ("--chunked-prefill-size", "64"), ("--ep-size", "2"), ("--is-embedding",), DEFAULT):
            with self.subTest(flags=flags):
                self.refused((MODEL,), (MODEL, *flags))
        nextn = MODELS.parent / "nextn" / "nextn-glm4-moe"
        self.refused((nextn, "--speculative-algorithm", "NEXTN"), (nextn,))
        self.refused((nextn,), (nextn, "--speculative-algorithm", "NEXTN"))


if __name__ == "__main__":
    unittest.main()
