"""Physics: tensors, copies, the model. Knows no request."""
