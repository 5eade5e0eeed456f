//! Memory at reserved addresses (the driver's virtual memory management): the addresses exist from the start, and memory
//! is added while the addresses stay the same.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{DriverError, result, sys};

use super::driver::Stream;
use super::failed::failed;
use crate::error::Result;

/// A range of addresses, of which a first part has memory. The memory is given back on drop.
pub struct Reserved {
    address: sys::CUdeviceptr,
    bytes: usize,
    /// Memory is added in multiples of this size.
    granularity: usize,
    stream: Arc<Stream>,
    pieces: Mutex<Vec<Piece>>,
}

/// Memory at the next addresses.
struct Piece {
    handle: sys::CUmemGenericAllocationHandle,
    bytes: usize,
}

impl Reserved {
    /// Reserves addresses for at least this many bytes. `None` if the card or its driver cannot.
    pub fn new(stream: &Arc<Stream>, bytes: usize) -> Result<Option<Reserved>> {
        use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED as SUPPORTED;
        stream.bind()?;
        let supported = stream.context().attribute(SUPPORTED).is_ok_and(|supported| supported == 1);
        if !supported {
            return Ok(None);
        }
        let of_driver = |error| failed("reserving addresses", error);
        let (properties, mut granularity) = (properties(stream), 0);
        let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        // SAFETY: the context is bound; the call reads the properties and writes one number
        unsafe { sys::cuMemGetAllocationGranularity(&mut granularity, &properties, least) }
            .result()
            .map_err(of_driver)?;
        let (bytes, mut address) = (bytes.next_multiple_of(granularity), 0);
        // SAFETY: the call writes the address; the value made below owns the range
        match unsafe { sys::cuMemAddressReserve(&mut address, bytes, 0, 0, 0) }.result() {
            Ok(()) => {}
            // a driver for virtual machines may have no addresses to give; then segments are separate buffers
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED | sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                return Ok(None);
            }
            Err(error) => return Err(of_driver(error)),
        }
        Ok(Some(Reserved { address, bytes, granularity, stream: stream.clone(), pieces: Mutex::default() }))
    }

    /// The first address.
    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    /// The number of bytes that have memory.
    pub fn backed(&self) -> usize {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|piece| piece.bytes).sum()
    }

    /// Adds memory, all zero in the order of the stream, until the first `bytes` bytes have memory.
    ///
    /// # Panics
    /// When fewer bytes are reserved.
    pub fn back(&self, bytes: usize) -> Result<()> {
        assert!(bytes <= self.bytes, "{bytes} bytes of {} reserved ones", self.bytes);
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let backed: usize = pieces.iter().map(|piece| piece.bytes).sum();
        if bytes <= backed {
            return Ok(());
        }
        self.stream.bind()?;
        let more = (bytes - backed).next_multiple_of(self.granularity);
        let at = self.address + backed as u64;
        let (of_driver, mut handle) = (|error| failed(&format!("allocating {more} bytes"), error), 0);
        // SAFETY: the context is bound; the call reads the properties and writes the handle
        unsafe { sys::cuMemCreate(&mut handle, more, &properties(&self.stream), 0) }.result().map_err(of_driver)?;
        let access = sys::CUmemAccessDesc {
            location: location(&self.stream),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the addresses are this value's and have no memory yet. The memory has the size of their range
        let mapped = unsafe {
            sys::cuMemMap(at, more, 0, handle, 0).result().and_then(|()| {
                let usable = sys::cuMemSetAccess(at, more, &access, 1)
                    .result()
                    .and_then(|()| result::memset_d8_async(at, 0, more, self.stream.handle()));
                usable.inspect_err(|_| {
                    let _ = sys::cuMemUnmap(at, more);
                })
            })
        };
        if let Err(error) = mapped {
            // SAFETY: the handle is this function's, and no addresses lead to its memory
            let _ = unsafe { sys::cuMemRelease(handle) };
            return Err(of_driver(error));
        }
        pieces.push(Piece { handle, bytes: more });
        Ok(())
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // memory that the card still uses must not be unmapped; memory on a lost card is not freed
        if self.stream.bind().is_err() || self.stream.drain().is_err() {
            return;
        }
        let mut at = self.address;
        for Piece { handle, bytes } in self.pieces.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // SAFETY: this value mapped the memory at these addresses and owns the handle
            unsafe {
                let _ = sys::cuMemUnmap(at, *bytes);
                let _ = sys::cuMemRelease(*handle);
            }
            at += *bytes as u64;
        }
        // SAFETY: this value owns the addresses, and no memory is mapped there any more
        let _ = unsafe { sys::cuMemAddressFree(self.address, self.bytes) };
    }
}

fn location(stream: &Stream) -> sys::CUmemLocation {
    // SAFETY: the type has only numbers, and zero is valid for all of them
    let mut location: sys::CUmemLocation = unsafe { std::mem::zeroed() };
    location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = stream.context().cu_device();
    location
}

fn properties(stream: &Stream) -> sys::CUmemAllocationProp {
    // SAFETY: the type has only numbers and a pointer that may be null
    let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
    properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location(stream);
    properties
}
