"""Routes by resource. Handlers translate between HTTP and what they call; they decide nothing."""
