"""Python code of task files, run in a worker process.

`calls` answers calls in the worker; `rows` is the data set passed to ``process_docs``; `shim`
provides the modules of other packages that such code imports.
"""
