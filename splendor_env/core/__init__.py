"""The rules of the game over arrays of records: NumPy and Numba only, no classes that act."""
