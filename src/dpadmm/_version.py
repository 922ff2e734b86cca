"""The version of the package: the one place that says it, also to the build."""

__version__ = "0.2.0.dev0"
