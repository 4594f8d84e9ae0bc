"""A page about runs, in one file of HTML that loads nothing."""
