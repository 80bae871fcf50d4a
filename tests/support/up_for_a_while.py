"""`python -m tests.support.up_for_a_while SECONDS`: `mnemolog up --demo`, stopped so long after it is up."""

import signal
import subprocess
import sys
import time


def main() -> None:
    """Ends with the exit code of `up`; its output goes on to stdout."""
    command = [sys.executable, "-m", "api.cli.main", "up", "--demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            if "Ctrl-C stops it" in line:
                time.sleep(float(sys.argv[1]))
                process.send_signal(signal.SIGINT)
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
