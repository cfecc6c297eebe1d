"""The web table: people and agents at one table, replays and analysis, over HTTP."""
