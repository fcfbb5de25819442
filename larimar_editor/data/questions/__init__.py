"""Kinds of questions in many wordings, and what is asked like them but is not the same: inverses, negations,
two hops.
"""
