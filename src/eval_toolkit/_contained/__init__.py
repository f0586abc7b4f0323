"""Work that may not end: done in a process of its own with limits of time and memory."""
