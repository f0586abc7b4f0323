"""A small prompt-injection guard, evaluated with eval-toolkit."""
