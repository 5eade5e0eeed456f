//! The adapters of the machine: which of them are used, and their properties.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use ::wgpu::{Adapter, AdapterInfo, Backend, DeviceType, Features, Limits, ShaderRuntimeChecks};

use super::Wgpu;
use super::queue::{Queue, block_on};
use crate::error::{Error, Result};
use crate::gpu::{Language, Properties};

/// wgpu does not report a card's memory. Keys and rows may take this much memory, or the largest size of a buffer if
/// that is less. The value is about twenty keys of a preset, and every card of recent years has more memory.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// wgpu does not report the number of multiprocessors either. The numbers here are those of a small card of each kind.
/// They determine how many rows a launch may have, and how many rows a batch should have if this cannot be measured
/// (`detect/batch_rows.rs`).
const MULTIPROCESSORS_DISCRETE: u32 = 32;
const MULTIPROCESSORS_INTEGRATED: u32 = 8;

/// Number of loop turns in a kernel after which a software driver ends all loops.
const SOFTWARE_LOOP_TURNS_MAX: u32 = 65_535;

/// Bytes of a word.
const WORD_BYTES: u32 = 4;

/// Implements [`Wgpu::enumerate`]. Each card is opened with those `features` that it supports.
pub(super) fn enumerate(software: bool, features: Features, checks: ShaderRuntimeChecks) -> Vec<Result<Wgpu>> {
    let mut seen = HashSet::new();
    let cards: Vec<_> = block_on(instance().enumerate_adapters(::wgpu::Backends::PRIMARY))
        .into_iter()
        // if two drivers show the same card, keep only the first
        .filter(|adapter| {
            let place = adapter.get_info().device_pci_bus_id;
            place.is_empty() || seen.insert(place)
        })
        .map(|adapter| {
            if !adapter.get_downlevel_capabilities().flags.contains(::wgpu::DownlevelFlags::COMPUTE_SHADERS) {
                return Err(Error::Unavailable(format!("{}: the adapter cannot compute", adapter.get_info().name)));
            }
            usable(&adapter.get_info(), adapter.features(), software)?;
            open(&adapter, features & adapter.features(), checks)
        })
        .collect();
    if cards.is_empty() {
        return vec![Err(Error::Unavailable("this machine has no graphics driver with an adapter".to_owned()))];
    }
    cards
}

/// The graphics drivers of this machine. A process loads the drivers once and never unloads them, because a driver may
/// have left functions behind that run when a thread ends: NVIDIA's Vulkan driver does so by way of `libEGL`, and a
/// thread that ended after the unloading crashed the process (H200, driver 580.159).
fn instance() -> &'static ::wgpu::Instance {
    static INSTANCE: OnceLock<::wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut descriptor = ::wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = ::wgpu::Backends::PRIMARY;
        descriptor.flags = ::wgpu::InstanceFlags::empty();
        // if a card is nearly full, refuse allocations; otherwise the driver would evict the memory of other programs
        descriptor.memory_budget_thresholds.for_resource_creation = Some(95);
        ::wgpu::Instance::new(descriptor)
    })
}

fn usable(info: &AdapterInfo, features: Features, software: bool) -> Result<()> {
    let refuse = |why: &str| Err(Error::Unavailable(format!("{}: {why}", info.name)));
    // Direct3D 12 has 64-bit integers only if its compiler is DXC. Without them, the compiler is FXC, which takes
    // minutes for these loops
    if info.backend == Backend::Dx12 && !features.contains(Features::SHADER_INT64) {
        return refuse(
            "Direct3D 12 has no compiler for these kernels here: put dxcompiler.dll (DXC) beside the program, or install \
             the card's Vulkan driver",
        );
    }
    match info.device_type {
        DeviceType::DiscreteGpu | DeviceType::IntegratedGpu | DeviceType::VirtualGpu => Ok(()),
        DeviceType::Cpu if software => Ok(()),
        DeviceType::Cpu => refuse("the adapter is a processor, not a card"),
        DeviceType::Other => refuse("the kind of the adapter is unknown"),
    }
}

fn open(adapter: &Adapter, features: Features, checks: ShaderRuntimeChecks) -> Result<Wgpu> {
    let limits = adapter.limits();
    let properties = properties(&adapter.get_info(), &limits, features);
    let descriptor = ::wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: limits.clone(),
        memory_hints: ::wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    let (device, queue) = block_on(adapter.request_device(&descriptor))
        .map_err(|error| Error::Unavailable(format!("{}: {error}", properties.name)))?;
    let queue = Arc::new(Queue::new(device, queue, properties.memory_bytes, &limits, checks)?);
    Ok(Wgpu { properties, queue })
}

fn properties(info: &AdapterInfo, limits: &Limits, features: Features) -> Properties {
    let software = info.device_type == DeviceType::Cpu;
    let multiprocessors = match info.device_type {
        DeviceType::Cpu => std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32),
        DeviceType::IntegratedGpu => MULTIPROCESSORS_INTEGRATED,
        _ => MULTIPROCESSORS_DISCRETE,
    };
    let buffer_bytes_max = limits.max_buffer_size.min(limits.max_storage_buffer_binding_size);
    Properties {
        backend: if software { "wgpu-software" } else { "wgpu" }.to_owned(),
        name: info.name.clone(),
        memory_bytes: limits.max_buffer_size.min(MEMORY_BYTES_MAX),
        language: Language::Wgsl,
        threads_max: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        shared_bytes_max: limits.max_compute_workgroup_storage_size,
        groups_max: [limits.max_compute_workgroups_per_dimension; 3],
        buffer_bytes_max,
        alignment_words: limits.min_storage_buffer_offset_alignment.max(WORD_BYTES) / WORD_BYTES,
        multiprocessors,
        compute_capability: None,
        loop_turns_max: software.then_some(SOFTWARE_LOOP_TURNS_MAX),
        wide_integers: features.contains(Features::SHADER_INT64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct3d_without_its_newer_compiler_is_passed_over_and_says_what_to_install() {
        let reason = |backend, features| {
            let mut info = AdapterInfo::new(DeviceType::DiscreteGpu, backend);
            info.name = "RTX".to_owned();
            usable(&info, features, false).err().map(|error| error.to_string())
        };
        let refused = reason(Backend::Dx12, Features::empty()).expect("it has no compiler");
        assert!(refused.contains("RTX: Direct3D 12") && refused.contains("dxcompiler.dll"), "{refused}");
        assert_eq!(reason(Backend::Dx12, Features::SHADER_INT64), None);
        assert_eq!(reason(Backend::Vulkan, Features::empty()), None);
    }
}
