"""One folder an operator: contract, judged reference, routes."""
