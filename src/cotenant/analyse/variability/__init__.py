"""How much "identical" devices differ, where it comes from, which of them are slow, since when and why.

Everything here works on `Readings`: a row per measurement of a kind of work on a GPU. A GPU stands for any
member of a group of devices; on a CPU it is a core.
"""
