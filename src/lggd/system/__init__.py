"""What the operating system provides: files and folders, locks, memory, temporary files."""
