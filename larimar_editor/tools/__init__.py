"""Other people's tools with a Larimar in them: a benchmark harness, a server, a demo."""
