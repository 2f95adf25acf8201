"""What `fanfold demo` runs: delivery notes on a stack of their own, and the proof that they came in parallel."""
