"""The transport over NVIDIA FLARE: kits, processes, what a site allows, and the two classes that FLARE runs."""
