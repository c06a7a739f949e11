"""A budget over many runs on the same data: a run writes down what it spends before its noise is drawn."""
