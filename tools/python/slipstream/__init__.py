"""slipstream makes unmodified PyTorch training faster and explains where the time goes.

The command is `slipstream`, also `python -m slipstream`; nothing needs to be imported for it.
"""


def __getattr__(name):
    if name == "__version__":
        from importlib.metadata import version

        return version("slipstream")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
