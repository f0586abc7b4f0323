"""Private helpers: files, tables, validation, display, sandbox and kernels."""
