"""What several tests share: made graphs, small models, other processes, oracles."""
