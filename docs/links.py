"""For `make docs`: files of the repository that a page links to become part of the site.

On the code's own page a link such as ``../examples/x.py`` leads to the file; the site has no such place, so
the file is put into it. A link to a file that is not there ends the build.
"""

import re
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown, page, config, files):
    """Links out of ``docs`` led to where the files are in the site."""

    def led(match):
        label, place = match.groups()
        path = ROOT / place
        if not path.exists():
            raise PluginError(f"{page.file.src_uri} links to {place}, which is not there")
        if path.is_dir():
            return label
        name = f"files/{place}.txt"  # shown, not run and not rendered
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, abs_src_path=str(path)))
        return f"[{label}]({name})"

    return LINK.sub(led, markdown)
