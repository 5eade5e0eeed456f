//! Errors of the driver.

use cudarc::driver::{DriverError, sys};

use crate::error::Error;

/// Converts an error of the driver to the variant that tells the caller how to react.
pub fn failed(doing: &str, DriverError(code): DriverError) -> Error {
    use sys::CUresult::*;
    let message = format!("{doing}: {code:?}");
    match code {
        CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory(message),
        // the launch has more groups that wait for each other than the card can run at the same time
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE => Error::Unavailable(message),
        // after these errors, no call of the process to this card succeeds
        CUDA_ERROR_NOT_INITIALIZED
        | CUDA_ERROR_DEINITIALIZED
        | CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUDA_ERROR_NO_DEVICE
        | CUDA_ERROR_INVALID_DEVICE
        | CUDA_ERROR_INVALID_CONTEXT
        | CUDA_ERROR_ECC_UNCORRECTABLE
        | CUDA_ERROR_NVLINK_UNCORRECTABLE
        | CUDA_ERROR_CONTAINED
        | CUDA_ERROR_ILLEGAL_ADDRESS
        | CUDA_ERROR_LAUNCH_TIMEOUT
        | CUDA_ERROR_CONTEXT_IS_DESTROYED
        | CUDA_ERROR_ASSERT
        | CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUDA_ERROR_MISALIGNED_ADDRESS
        | CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUDA_ERROR_INVALID_PC
        | CUDA_ERROR_LAUNCH_FAILED
        | CUDA_ERROR_TENSOR_MEMORY_LEAK
        | CUDA_ERROR_SYSTEM_NOT_READY
        | CUDA_ERROR_MPS_CLIENT_TERMINATED
        | CUDA_ERROR_EXTERNAL_DEVICE
        | CUDA_ERROR_UNKNOWN => Error::Lost(message),
        _ => Error::Device(message),
    }
}
