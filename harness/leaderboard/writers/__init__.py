"""Leaderboards as text: terminal, Markdown, JSON."""
