"""Names that other projects have for what is here, and their protocols.

nd, error, transform, topi, contrib     TVM's, found as `mlcnb.nd` and so on
onnx_backend                            ONNX's protocol for backends, found as `mlcnb.onnx_backend`
"""
