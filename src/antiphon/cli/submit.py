"""The file that `spark-submit` takes, because it takes a file and not a command:

    spark-submit --master spark://host:7077 "$(antiphon pipeline program)" audit DIR --json

is `antiphon pipeline audit DIR --json` where spark-submit says. The executors' Python, which must have Antiphon installed, is the one that
`PYSPARK_PYTHON` names.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # A program's own directory comes first in the path, and here it has modules with names of the standard library's.
    here = str(Path(__file__).parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    from antiphon.cli.main import main

    sys.exit(main(["pipeline", *sys.argv[1:]]))
