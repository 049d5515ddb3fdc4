# SPDX-License-Identifier: BSD-3-Clause
# Runs test modules of CPython and appends a line for each test to a file: what it is, what came out.
# run: tool
import sys
import unittest


class Result(unittest.TextTestResult):
    def line(self, test, word):
        with open(sys.argv[1], "a", encoding="utf-8") as f:
            f.write(f"{test.id()}\t{word}\n")

    def startTest(self, test):
        super().startTest(test)
        self.line(test, "begun")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line(test, "ok")

    def addError(self, test, err):
        super().addError(test, err)
        self.line(test, "error")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(test, "skipped")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.line(test, "failed as expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.line(test, "did not fail")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.line(test, "failed in part")


if __name__ == "__main__":  # not in a process that multiprocessing starts
    unittest.main(module=None, argv=["collect", "-v", *sys.argv[2:]],
                  testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result))
