"""The README's snippet and what it prints, by its own word; `python tests/readme.py README.md` prints it."""

import re
import sys
from pathlib import Path


def snippet(readme: Path) -> tuple[str, str]:
    """The first block of Python, and the block after "prints"."""
    found = re.search(
        r"```python\n(.*?)```\n\nprints\n\n```\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found, "the README has a snippet and what it prints"
    return found[1], found[2]


if __name__ == "__main__":
    print(snippet(Path(sys.argv[1]))[0])
