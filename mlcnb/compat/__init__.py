"""Names that other projects have for what is here, and their protocols.

nd, error, ffi, transform, topi, contrib  TVM's, found as `mlcnb.nd` and so on
data_layout                               TVM's `tir.layout`, `tir.bijective_layout`
paths                                     TVM's modules whose names stand elsewhere here
onnx_backend                              ONNX's for backends, found as `mlcnb.onnx_backend`
"""
