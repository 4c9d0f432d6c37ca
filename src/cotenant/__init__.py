"""cotenant: should these workloads share an accelerator, how, and at what cost?"""

__version__ = "0.1.0"
