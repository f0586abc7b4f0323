"""Private helpers of every package: files, tables, validation, display, sandbox, kernels."""
