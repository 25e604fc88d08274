"""Text in, exact input out; tokens in, typed output out."""
