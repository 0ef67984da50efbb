"""Tables, bars and messages on a terminal, and the exit statuses of commands."""
