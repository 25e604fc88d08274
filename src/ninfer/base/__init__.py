"""Words everybody shares: ids, pools, buffers, identity, outcomes, errors, clock, events. Standard library only."""
