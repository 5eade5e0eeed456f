//! Errors of the driver.

use cudarc::driver::{DriverError, sys};

use crate::error::Error;

/// Converts an error of the driver to the variant that tells the caller how to react.
pub fn failed(doing: &str, DriverError(code): DriverError) -> Error {
    use sys::CUresult::*;
    let message = format!("{doing}: {code:?}");
    match code {
        CUDA_ERROR_OUT_OF_MEMORY => Error::OutOfMemory(message),
        // the launch has more groups that wait for each other than the card, or a part of the card, can run at once
        CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE | CUDA_ERROR_INVALID_CLUSTER_SIZE => Error::Unavailable(message),
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

/// Converts the error of a launch. `together`: groups of the launch wait for each other. A card without room for such
/// groups, as a small part of a card (MIG) or a card that other processes use, may still run groups that wait for none.
pub fn launch_failed(entry: &str, together: bool, error: DriverError) -> Error {
    match failed(&format!("starting {entry}"), error) {
        Error::Device(message) if together && error.0 == sys::CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
            Error::Unavailable(message)
        }
        other => other,
    }
}

/// Returns the reason for which a card, or all cards, cannot be opened, with the remedy where one is known.
pub fn why(doing: &str, DriverError(code): DriverError) -> String {
    use sys::CUresult::*;
    match code {
        CUDA_ERROR_NO_DEVICE => {
            "the NVIDIA driver finds no card; to use a card in a container, start the container with \
            the card (docker run --gpus all), and check CUDA_VISIBLE_DEVICES"
                .into()
        }
        CUDA_ERROR_STUB_LIBRARY => {
            "the libcuda.so.1 that the dynamic linker found is the stub for building programs; let \
            it find the driver's own library first (LD_LIBRARY_PATH)"
                .into()
        }
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "libcuda.so.1 and the kernel's module of the NVIDIA driver have different \
            versions; restart the machine after the driver's update, and the container with it"
                .into()
        }
        CUDA_ERROR_SYSTEM_NOT_READY => format!("{doing}: {code:?}; cards with NVSwitch need nvidia-fabricmanager"),
        CUDA_ERROR_DEVICE_UNAVAILABLE => format!("{doing}: {code:?}; another process may hold the card alone"),
        _ => format!("{doing}: {code:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_refuses_groups_that_wait_for_each_other_is_asked_for_others() {
        use sys::CUresult::*;
        let launch = |together, code| launch_failed("entry", together, DriverError(code));
        for code in [
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            CUDA_ERROR_INVALID_CLUSTER_SIZE,
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
        ] {
            assert!(matches!(launch(true, code), Error::Unavailable(_)), "{code:?}");
        }
        assert!(matches!(launch(false, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), Error::Device(_)));
        assert!(matches!(launch(true, CUDA_ERROR_INVALID_VALUE), Error::Device(_)));
        assert!(matches!(launch(true, CUDA_ERROR_LAUNCH_FAILED), Error::Lost(_)));
    }

    #[test]
    fn a_card_that_cannot_be_opened_was_not_lost() {
        use sys::CUresult::*;
        let none = why("counting the cards", DriverError(CUDA_ERROR_NO_DEVICE));
        assert!(none.starts_with("the NVIDIA driver finds no card") && none.contains("--gpus"), "{none}");
        for code in [CUDA_ERROR_NO_DEVICE, CUDA_ERROR_SYSTEM_NOT_READY, CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_DEVICE] {
            assert!(!why("opening", DriverError(code)).contains("lost"), "{code:?}");
        }
    }
}
