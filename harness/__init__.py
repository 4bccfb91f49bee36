"""Competition submission toolkit: check, time, compare and merge kernels for one problem folder."""

__version__ = "0.1.0"
