"""`python -m larimar_editor`: the commands."""

from larimar_editor.cli import main

main()
