"""The results that the documentation shows: which are made, and the pages that are cut from them."""
