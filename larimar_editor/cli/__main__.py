"""`python -m larimar_editor.cli`: the commands, for launchers of several processes."""

from larimar_editor.cli import main

main()
