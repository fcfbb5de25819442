"""What editing changes: facts and memory, the operations on them, their history, their files."""
