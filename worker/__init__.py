"""What the processes that work on parts share: leases, children that may be killed, inputs, and what failures cost."""
