"""All that knows EasyEdit: finding it, making it importable, registering Larimar, running its other
methods.
"""
