"""Embedders: texts to unit vectors. Importing this loads neither torch nor onnxruntime; building an embedder does."""
