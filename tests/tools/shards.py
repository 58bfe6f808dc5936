"""Runs a share of a file's test cases: share I of N (from 1) with INFER_SHARD=I/N, otherwise all.

Every N-th case belongs to a share, by the order of their names, so that each runs in exactly one."""
import os
import sys
import unittest


def cases(suite):
    for t in suite:
        yield from cases(t) if isinstance(t, unittest.TestSuite) else (t,)


def share(suite):
    number, count = map(int, os.environ.get("INFER_SHARD", "1/1").split("/"))
    if not 1 <= number <= count:
        sys.exit(f"INFER_SHARD={number}/{count}: share {number} of {count} does not exist")
    mine = sorted(cases(suite), key=lambda t: t.id())[number - 1 :: count]
    if not mine:
        sys.exit(f"INFER_SHARD={number}/{count}: no case is left for this share")
    return unittest.TestSuite(mine)


def main():
    """In place of unittest.main(); names on the command line are run as they are there."""
    names = sys.argv[1:]
    if names:
        unittest.main(module="__main__", argv=sys.argv, verbosity=2)
    suite = share(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    sys.exit(not unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful())
