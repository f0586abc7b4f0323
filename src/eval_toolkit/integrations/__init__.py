"""Where the toolkit meets other tools: their logs, their files, their runners."""
