"""Files, folders and memory of the operating system."""
