"""What the operating system provides: files and folders, and memory."""
