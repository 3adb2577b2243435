"""Back ends: who answers a program's calls."""
