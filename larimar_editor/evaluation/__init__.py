"""How good an editor is: `harness`, what every measurement shares, and `tables`, one module a table or
figure.
"""
