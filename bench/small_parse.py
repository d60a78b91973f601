"""The JSON parser alone: every record of JSON lists, read as a stream and forgotten."""

import sys
from collections import deque
from pathlib import Path

import ijson

for name in sys.argv[1:]:
    with Path(name).open("rb") as file:
        deque(ijson.items(file, "item", use_float=True), maxlen=0)
