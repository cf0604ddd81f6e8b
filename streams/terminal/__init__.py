"""Output for a terminal: tables, progress bars and the escaping of crawled text."""
