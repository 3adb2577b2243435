"""bounded_unittest.py [unittest arguments]: `python -m unittest`, with a limit on each test.

A test that waits for what never comes is a failure that names the line it waits in, and the tests after it still run.
ESPALIER_TEST_SECONDS is the limit in seconds; without it 600, and 3,000 where the long tests run too. Setting up a class
or a module counts as a test."""
import os
import signal
import sys
import unittest

SECONDS = float(os.environ.get("ESPALIER_TEST_SECONDS") or (3000 if os.environ.get("ESPALIER_LONG_TESTS") else 600))


class TookTooLong(AssertionError):
    pass


def refuse(_signal, _frame):
    # Once more a little later: the test's own handlers may have caught the first one in a loop.
    signal.setitimer(signal.ITIMER_REAL, 10)
    raise TookTooLong(f"the test went on for more than {SECONDS:g} seconds (ESPALIER_TEST_SECONDS)")


class BoundedResult(unittest.TextTestResult):
    """Starts the clock anew at each test; what runs between two tests (a class's set-up) has the same limit."""
    def restart(self):
        signal.setitimer(signal.ITIMER_REAL, SECONDS)

    def startTestRun(self):
        super().startTestRun()
        self.restart()

    def startTest(self, test):
        self.restart()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.restart()

    def stopTestRun(self):
        signal.setitimer(signal.ITIMER_REAL, 0)
        super().stopTestRun()


class BoundedRunner(unittest.TextTestRunner):
    resultclass = BoundedResult


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, refuse)
    # As with `-m unittest`: modules are found from the folder in which it was started.
    sys.path[0] = os.getcwd()
    unittest.main(module=None, testRunner=BoundedRunner, argv=["python -m unittest", *sys.argv[1:]])
