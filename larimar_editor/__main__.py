from larimar_editor.cli import main

main()
