"""The CUDA driver's codes for what went wrong, and what a user can do about each."""

from __future__ import annotations

# Enumerators of cuda.h, without their CUDA_ERROR_.
STATUSES = {
    "invalid_value": 1,
    "out_of_memory": 2,
    "not_initialized": 3,
    "deinitialized": 4,
    "stub_library": 34,
    "device_unavailable": 46,
    "no_device": 100,
    "invalid_device": 101,
    "invalid_image": 200,
    "invalid_context": 201,
    "no_binary_for_gpu": 209,
    "ecc_uncorrectable": 214,
    "invalid_handle": 400,
    "not_found": 500,
    "illegal_address": 700,
    "launch_out_of_resources": 701,
    "launch_timeout": 702,
    "context_is_destroyed": 709,
    "assert": 710,
    "hardware_stack_error": 714,
    "illegal_instruction": 715,
    "misaligned_address": 716,
    "invalid_address_space": 717,
    "invalid_pc": 718,
    "launch_failed": 719,
    "cooperative_launch_too_large": 720,
    "not_permitted": 800,
    "not_supported": 801,
    "system_not_ready": 802,
    "system_driver_mismatch": 803,
    "compat_not_supported_on_device": 804,
    "stream_capture_unsupported": 900,
    "stream_capture_invalidated": 901,
    "stream_capture_merge": 902,
    "stream_capture_unmatched": 903,
    "stream_capture_unjoined": 904,
    "stream_capture_isolation": 905,
    "stream_capture_implicit": 906,
    "captured_event": 907,
    "stream_capture_wrong_thread": 908,
    "invalid_cluster_size": 912,
    "unknown": 999,
}

_FAULT = (
    "this kernel, or one before it, did what the hardware forbids: px.check finds the place; "
    "start the process anew, its CUDA context is lost"
)
_INSTALLATION = "see whether nvidia-smi works: the driver is not loaded, or of another version than its library"
_CAPTURE = (
    "launch the kernel once before the capture begins; one that prints, asserts or has bounded waits can't be captured"
)
_STREAM = "launch on a stream of the arguments' device that has not been destroyed"
_IMAGE = "the kernel was compiled for another GPU: let the launch compile it, or pass the arch= of this device"
_DEVICE = "compare CUDA_VISIBLE_DEVICES with what nvidia-smi lists, or pass NumPy arrays to simulate"
REMEDIES = {
    "invalid_value": "the driver refuses the arguments: if grid and arrays are as they should be, please report the kernel",
    "out_of_memory": "free memory of the GPU (nvidia-smi lists who has it, torch.cuda.empty_cache() returns torch's), "
    "or pass smaller arrays",
    "not_initialized": _INSTALLATION,
    "deinitialized": "launch before the interpreter shuts down, not from its exit handlers",
    "stub_library": "take the toolkit's folder 'stubs' out of LD_LIBRARY_PATH: the real libcuda.so.1 comes with the driver",
    "device_unavailable": "another process has this GPU to itself: wait for it, or choose another with CUDA_VISIBLE_DEVICES",
    "no_device": _DEVICE,
    "invalid_device": _DEVICE,
    "invalid_image": _IMAGE,
    "invalid_context": _STREAM,
    "no_binary_for_gpu": _IMAGE,
    "ecc_uncorrectable": "the GPU's memory is damaged: choose another GPU, or have this one reset",
    "invalid_handle": _STREAM,
    "not_found": "update the driver: it lacks something that the kernel needs",
    "illegal_address": _FAULT,
    "launch_out_of_resources": "ask for less: fewer warps, or fewer registers a thread by smaller tiles",
    "launch_timeout": "the GPU also drives a display, which ends long kernels: run on another one, or launch smaller grids",
    "context_is_destroyed": "start the process anew: somebody has destroyed its CUDA context",
    "assert": _FAULT,
    "hardware_stack_error": _FAULT,
    "illegal_instruction": _FAULT,
    "misaligned_address": _FAULT,
    "invalid_address_space": _FAULT,
    "invalid_pc": _FAULT,
    "launch_failed": _FAULT,
    "cooperative_launch_too_large": "CTAs of a kernel with cooperative=True run at the same time: launch no more than "
    "the GPU holds, or take less of an SM for each",
    "not_permitted": "the system forbids it: see the permissions of /dev/nvidia*, and of the container",
    "not_supported": "the GPU or its driver can't do this: a GPU from sm_90 on and a current driver can",
    "system_not_ready": "start the system's services for the GPUs (nvidia-fabricmanager), then try again",
    "system_driver_mismatch": _INSTALLATION,
    "compat_not_supported_on_device": _INSTALLATION,
    **{name: _CAPTURE for name in STATUSES if "captur" in name},
    "invalid_cluster_size": "take a smaller cluster: 8 CTAs run on every GPU that has clusters",
    "unknown": _INSTALLATION,
}
_BY_STATUS = {number: REMEDIES[name] for name, number in STATUSES.items()}
_OTHERWISE = "the CUDA driver API's manual explains this code under CUresult; a kernel launched earlier may be its cause"


def remedy_for(status: int) -> str:
    """What to do about a status that a call of the driver returned."""
    return _BY_STATUS.get(status, _OTHERWISE)
