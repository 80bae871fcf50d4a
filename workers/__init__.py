"""Motion: runners that fold the log into documents, and arq jobs.

`arq workers.WorkerSettings` starts what `mnemolog worker` starts, with the settings of the environment; of an installed
package, `arq mnemolog.WorkerSettings`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "WorkerSettings":
        raise AttributeError(name)
    import os

    from ingest.platform.settings import from_environment
    from workers.main import worker_settings

    return worker_settings(from_environment(os.environ))
