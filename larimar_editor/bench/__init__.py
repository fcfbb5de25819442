"""How long editing and reading take, and how that grows; each figure beside something measured in the same
run.
"""

PARTS = ("edits", "blocks", "reads", "generation", "rows", "facts", "lookups", "files", "training")
