"""Facts: plain accounting on integers. Every class has audit()."""
