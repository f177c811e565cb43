"""The one exception for mistakes a user can mend."""


class UserError(Exception):
    """What was wrong, where, and what to type instead; shown as one line, without a traceback."""
