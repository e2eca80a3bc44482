"""The fuzzer of types: what people keep in tables, compared and computed in every place of a statement."""
