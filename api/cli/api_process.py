"""One of several API processes on one port; `mnemolog api` starts them and says which it is."""

import os
import sys
from pathlib import Path

from api.api_processes import ApiProcess
from ingest.platform.processes import load_without_collecting


def main() -> None:
    """Serve as the process that the arguments name: its number, the folder it shares, whether it joins others."""
    load_without_collecting()
    from api.cli.processes import logged_settings, serve_api

    settings = logged_settings(os.environ)
    number, folder, joins = sys.argv[1:4]
    serve_api(settings, ApiProcess(int(number), settings.api_processes, Path(folder), joins == "joins"))


if __name__ == "__main__":
    from api.cli.main import explained

    explained(main)
