"""Is this prompt the question of a written fact?"""
