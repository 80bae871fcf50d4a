"""The hook that a coding agent runs at each event: `python -I -S hook.py HOST`, payload on stdin.

Only this file is compiled on every run; Python caches the byte code of the other modules, which saves two thirds of the
time.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:2] == ["--send"]:  # the process that sends to another machine's server; see `sending`
        url, spool = sys.argv[2:]
        __import__("sending").send(url, spool, __import__("recording").key_of(url, os.environ))
    else:
        __import__("recording").main(__import__("payloads").HOSTS)
