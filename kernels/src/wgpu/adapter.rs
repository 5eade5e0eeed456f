//! Which adapters there are, which of them are used, and what is known of each.

use std::collections::HashSet;
use std::sync::Arc;

use ::wgpu::{Adapter, AdapterInfo, DeviceType, Features, Limits};

use super::Wgpu;
use super::queue::{Queue, block_on};
use crate::backend::DeviceInfo;
use crate::error::{Error, Result};
use crate::gpu::{Card, Language};

/// wgpu tells of no card how much memory it has. Keys and rows may take this much, or one buffer's limit where that is
/// less: about twenty keys of a preset, and room that any card of the last years has.
const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Nor does it tell a card's multiprocessors; these are of a small card of each kind. They only say how many rows a batch
/// should have.
const MULTIPROCESSORS_DISCRETE: u32 = 32;
const MULTIPROCESSORS_INTEGRATED: u32 = 8;

/// Rows for each multiprocessor beyond which a batch gets no faster: enough groups to hide what each waits for.
const ROWS_A_MULTIPROCESSOR: usize = 8;

/// [`Wgpu::enumerate`]; of `features` each card gets those it has.
pub(super) fn enumerate(software: bool, features: Features) -> Vec<Result<Wgpu>> {
    let mut descriptor = ::wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.flags = ::wgpu::InstanceFlags::empty();
    // a card that is nearly full says so before it evicts what is there
    descriptor.memory_budget_thresholds.for_resource_creation = Some(95);
    let instance = ::wgpu::Instance::new(descriptor);
    let mut seen = HashSet::new();
    let cards: Vec<_> = block_on(instance.enumerate_adapters(::wgpu::Backends::PRIMARY))
        .into_iter()
        // one card under two drivers is still one
        .filter(|adapter| {
            let place = adapter.get_info().device_pci_bus_id;
            place.is_empty() || seen.insert(place)
        })
        .map(|adapter| {
            usable(&adapter, software)?;
            open(&adapter, features & adapter.features())
        })
        .collect();
    if cards.is_empty() {
        return vec![Err(Error::Unavailable("no graphics driver with an adapter on this machine".to_owned()))];
    }
    cards
}

fn usable(adapter: &Adapter, software: bool) -> Result<()> {
    let info = adapter.get_info();
    let refuse = |why: &str| Err(Error::Unavailable(format!("{}: {why}", info.name)));
    if !adapter.get_downlevel_capabilities().flags.contains(::wgpu::DownlevelFlags::COMPUTE_SHADERS) {
        return refuse("it cannot compute");
    }
    match info.device_type {
        DeviceType::DiscreteGpu | DeviceType::IntegratedGpu | DeviceType::VirtualGpu => Ok(()),
        DeviceType::Cpu if software => Ok(()),
        DeviceType::Cpu => refuse("it is a processor, not a card"),
        DeviceType::Other => refuse("it is of no known kind"),
    }
}

fn open(adapter: &Adapter, features: Features) -> Result<Wgpu> {
    let limits = adapter.limits();
    let card = card(&adapter.get_info(), &limits, features);
    let descriptor = ::wgpu::DeviceDescriptor {
        required_features: features,
        required_limits: limits.clone(),
        memory_hints: ::wgpu::MemoryHints::MemoryUsage,
        ..Default::default()
    };
    let (device, queue) = block_on(adapter.request_device(&descriptor))
        .map_err(|error| Error::Unavailable(format!("{}: {error}", card.info.name)))?;
    let queue = Arc::new(Queue::new(device, queue, card.info.memory_bytes, &limits)?);
    Ok(Wgpu { card, queue })
}

fn card(info: &AdapterInfo, limits: &Limits, features: Features) -> Card {
    let software = info.device_type == DeviceType::Cpu;
    let multiprocessors = match info.device_type {
        DeviceType::Cpu => std::thread::available_parallelism().map_or(1, |threads| threads.get() as u32),
        DeviceType::IntegratedGpu => MULTIPROCESSORS_INTEGRATED,
        _ => MULTIPROCESSORS_DISCRETE,
    };
    let buffer_bytes_max = limits.max_buffer_size.min(limits.max_storage_buffer_binding_size);
    Card {
        info: DeviceInfo {
            backend: if software { "wgpu-software" } else { "wgpu" }.to_owned(),
            name: info.name.clone(),
            memory_bytes: limits.max_buffer_size.min(MEMORY_BYTES_MAX),
            rows_max: multiprocessors as usize * ROWS_A_MULTIPROCESSOR,
            batches_in_flight_max: 2,
        },
        language: Language::Wgsl,
        threads_max: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
        shared_bytes_max: limits.max_compute_workgroup_storage_size,
        groups_max: limits.max_compute_workgroups_per_dimension,
        buffer_bytes_max,
        multiprocessors,
        compute_capability: None,
        wide_integers: features.contains(Features::SHADER_INT64),
    }
}
