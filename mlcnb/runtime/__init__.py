"""What runs compiled programs: threads, native graphs, tensors, devices and executables."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.runtime.shape_tuple": "ShapeTuple",
        "mlcnb.runtime.device": "Device cpu cuda device",
        "mlcnb.runtime.convert": "convert",
        "mlcnb.ir.path": "ObjectPath",
        "mlcnb.runtime.tensor": "Tensor NDArray=Tensor tensor empty from_dlpack",
        "mlcnb.runtime.executable": "Executable Module=Executable",
        "mlcnb.runtime.evaluator": "BenchmarkResult",
        "mlcnb.runtime.params": (
            "save_param_dict load_param_dict save_param_dict_to_file load_param_dict_from_file"
        ),
        "mlcnb.runtime.vm": "VirtualMachine Step",
        "mlcnb.runtime.profile": "Profile profile",
        "mlcnb.runtime.artifact": "load_module",
        "mlcnb.runtime.threads": "set_num_threads get_num_threads",
    },
)
