"""What a coding agent runs at each event of a session: `python -I -S hook.py HOST`, payload on stdin.

Only this file is compiled at every run; the rest is modules, whose byte code Python keeps. That saves two thirds of the
time.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    __import__("recording").main(__import__("payloads").HOSTS)
