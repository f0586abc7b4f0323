"""What every package stands on and no user imports: files, tables, validation, display, kernels."""
