"""Run a command as a whole process: `python -I -S launch.py RECORD COMMAND…` writes its seconds and peak KiB to RECORD.

A process of its own, because Linux counts the memory of whoever starts a command into the command's peak.
This one is small (10 MiB), so that only peaks below that are hidden.
"""

import json
import os
import sys
import time

record, *command = sys.argv[1:]
start = time.perf_counter()
pid = os.posix_spawnp(command[0], command, os.environ)
_, status, used = os.wait4(pid, 0)
seconds = time.perf_counter() - start
with open(record, "w") as file:  # noqa: PTH123  (pathlib would be a larger process)
    json.dump({"seconds": seconds, "peak_kib": used.ru_maxrss, "exit": os.waitstatus_to_exitcode(status)}, file)
