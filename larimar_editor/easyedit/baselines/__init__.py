"""EasyEdit's other methods, run for our tables: each in a process of its own."""
