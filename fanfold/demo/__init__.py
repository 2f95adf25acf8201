"""What `fanfold demo` runs: delivery notes in a stack of their own, and the proof that they were painted in parallel."""
