use super::*;
use crate::error::Error;
use crate::gpu::told::{Buf, Told};
use crate::gpu::{Properties, View};

fn device(gpu: Told) -> Device<Told> {
    let Properties { backend, name, memory_bytes, .. } = gpu.properties().clone();
    let info = DeviceInfo { backend, name, memory_bytes, rows_max: 1, batches_in_flight_max: 1, keys_together_max: 1 };
    Device::new(gpu, info)
}

#[test]
fn an_arena_grows_by_a_chunk_where_kernels_know_addresses_and_is_copied_elsewhere() {
    for (gpu, sizes, copies) in [(Told::new(4), [20, 10, 30], 0), (Told::of_wgsl(), [20, 30, 60], 2)] {
        let device = device(gpu);
        let mut arena = device.arena(10, 2).expect("room");
        for slots in [2, 3, 6] {
            device.grow(&mut arena, slots).expect("room");
        }
        assert_eq!(*device.gpu.buffers.lock().expect("one thread"), sizes);
        assert_eq!(device.gpu.asked(), vec!["copy"; copies]);
        assert_eq!(arena.slots(), 6);
        // an arena that does not fit one buffer is refused, and the arena is unchanged
        let too_many = (1 << 30) / 4 / 10 + 7;
        assert!(matches!(device.grow(&mut arena, too_many), Err(Error::OutOfMemory(_))));
        assert_eq!(arena.slots(), 6);
    }
}

#[test]
fn what_is_read_of_several_chunks_is_a_read_each_and_comes_in_the_order_asked_for() {
    let device = device(Told::new(4));
    let mut arena = device.arena(10, 2).expect("room");
    [3, 6].into_iter().for_each(|slots| device.grow(&mut arena, slots).expect("room"));
    device.write(&mut arena, 1, &[0; 40]).expect("three chunks");
    assert_eq!(device.gpu.asked(), ["write"; 3]);
    let slots = [5, 1, 0, 2, 3, 4, 4, 1];
    // the three chunks are buffers 0, 1 and 2, so their words start at 0, 1000 and 2000
    let first_words = [2020, 10, 0, 1000, 2000, 2010, 2010, 10];
    let expected: Vec<u32> = first_words.iter().flat_map(|first| *first..first + 10).collect();
    let pending = device.read(&arena, &slots).expect("reads");
    assert_eq!(device.finish(pending).expect("words"), expected);
    assert_eq!(device.gpu.asked(), ["read", "read", "read", "finish", "finish", "finish"]);
}

#[test]
fn a_slot_s_distance_leads_to_its_row_in_its_chunk() {
    let device = device(Told::new(4));
    let other = device.gpu.alloc(1).expect("room");
    let mut arena = device.arena(10, 2).expect("room");
    [3, 6].into_iter().for_each(|slots| device.grow(&mut arena, slots).expect("room"));
    let words_of_a_buffer = 1i64 << 38;
    let row_of = [(0, 0), (0, 10), (1, 0), (2, 0), (2, 10), (2, 20)];
    let views: Vec<View<'_, Buf>> = arena.views().collect();
    for (from, buffers_before) in [(views[0].buf, 0), (&other, -1), (views[2].buf, 2)] {
        let distance_of = arena.distances(&device.gpu, from);
        for (slot, (chunk, at)) in (0..).zip(row_of) {
            let [low, high] = distance_of(slot);
            let found = (u64::from(high) << 32 | u64::from(low)) as i64;
            assert_eq!(found, (chunk - buffers_before) * words_of_a_buffer + at, "slot {slot}");
        }
    }
}
