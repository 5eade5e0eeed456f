use super::*;
use crate::error::Error;
use crate::gpu::told::Told;

fn device(gpu: Told) -> Device<Told> {
    let info = gpu.info();
    Device::new(gpu, info)
}

#[test]
fn an_arena_grows_in_place_where_addresses_are_reserved_and_is_copied_if_its_segment_is_full() {
    // a row of 20,000 words takes a page
    let reserves = device(Told::new(4));
    let mut arena = reserves.arena(20_000, 1).expect("room");
    reserves.grow(&mut arena, 300).expect("room");
    assert_eq!((reserves.gpu.asked(), arena.slots()), (vec!["back"; 2], 300));
    assert_eq!(reserves.gpu.buffers.lock().expect("one thread").len(), 1);

    // a segment of this card has 512 pages, a sixteenth of its memory
    let device = device(Told::of_wgsl());
    let [mut first, mut second] = [300, 212].map(|slots| device.arena(20_000, slots).expect("room"));
    assert_eq!(*device.gpu.buffers.lock().expect("one thread"), [512 << 15]);
    drop(second);
    device.grow(&mut first, 512).expect("room");
    assert_eq!(device.gpu.asked(), Vec::<&str>::new());
    device.grow(&mut first, 513).expect("room");
    assert_eq!(device.gpu.asked(), vec!["copy"; 512]);
    assert_eq!(*device.gpu.buffers.lock().expect("one thread"), [512 << 15, 513 << 15]);
    second = device.arena(20_000, 5).expect("room");
    let (kept, grown) = (second.pages().segment(), first.pages().segment());
    assert_ne!(kept, grown, "the pages of the first segment are free again");
}

#[test]
fn an_arena_that_does_not_fit_the_card_is_refused_and_unchanged() {
    for gpu in [Told::new(4), Told::of_wgsl()] {
        let device = device(gpu);
        let mut arena = device.arena(10, 2).expect("room");
        for slots in [1 << 27, 1 << 50, usize::MAX / 64] {
            assert!(matches!(device.grow(&mut arena, slots), Err(Error::OutOfMemory(_))), "{slots}");
        }
        assert_eq!(arena.slots(), 2);
    }
}

#[test]
fn rows_are_read_in_the_order_asked_for_without_the_unused_words_between_them() {
    let device = device(Told::new(4));
    let arena = device.arena(10, 8).expect("room");
    let slots = [5, 6, 7, 1, 0, 2, 3, 4, 4, 1];
    let expected: Vec<u32> = slots.iter().flat_map(|slot| 64 * slot..64 * slot + 10).collect();
    device.gpu.asked();
    let pending = device.read(&arena, &slots).expect("a read");
    assert_eq!(device.finish(pending).expect("words"), expected);
    assert_eq!(device.gpu.asked(), ["read", "finish"]);
    assert_eq!(arena.reads(&slots).ranges, [320..458, 64..74, 0..10, 128..266, 256..266, 64..74]);
}

#[test]
fn rows_of_a_page_are_written_at_once() {
    let device = device(Told::new(4));
    // 512 rows of at most 64 words fill a page
    let mut arena = device.arena(10, 1100).expect("room");
    device.gpu.asked();
    device.write(&mut arena, 500, &[0; 10 * 600]).expect("three pages");
    assert_eq!(device.gpu.asked(), ["write"; 3]);
    assert_eq!([0, 1, 511, 512, 1024].map(|slot| arena.place(slot)), [0, 1, 511, 512, 1024]);
}

#[test]
fn pages_that_are_given_back_are_taken_again_and_never_twice() {
    for gpu in [Told::new(4), Told::of_wgsl()] {
        let device = device(gpu);
        let mut arenas: Vec<Arena<Told>> = Vec::new();
        // a seeded order of new, growing and dropped arenas, each a page a slot
        let mut seed = 7u64;
        let mut dice = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..2000 {
            match dice(3) {
                0 => arenas.push(device.arena(20_000, 1 + dice(9) as usize).expect("room")),
                1 if !arenas.is_empty() => drop(arenas.swap_remove(dice(arenas.len() as u64) as usize)),
                2 if !arenas.is_empty() => {
                    let arena = dice(arenas.len() as u64) as usize;
                    let slots = arenas[arena].slots() + dice(5) as usize;
                    device.grow(&mut arenas[arena], slots).expect("room");
                }
                _ => {}
            }
            arenas.truncate(40);
            let mut taken: Vec<(u64, usize)> = Vec::new();
            for arena in &arenas {
                let places = (0..arena.slots() as u32).map(|slot| arena.row(slot).start);
                taken.extend(places.map(|word| (arena.pages().segment(), word)));
            }
            let pages = taken.len();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), pages, "two rows at one place");
        }
        let highest = arenas.iter().flat_map(|arena| (0..arena.slots() as u32).map(|slot| arena.row(slot).start)).max();
        assert!(highest < Some(700 << 15), "pages are used again");
    }
}

#[test]
fn keys_lie_in_neighbouring_pages_and_share_a_segment() {
    for gpu in [Told::new(4), Told::of_wgsl()] {
        let device = device(gpu);
        let take = |words| device.keys().take_run(&device.gpu, words).expect("room");
        let [first, second, third] = [100_000, 40_000, 1].map(take);
        let views = [(&first, 100_000), (&second, 40_000), (&third, 1)].map(|(pages, words)| pages.view(words).range());
        assert_eq!(views, [0..100_000, 4 << 15..(4 << 15) + 40_000, 6 << 15..(6 << 15) + 1]);
        assert!(first.segment() == second.segment() && second.segment() == third.segment());
        // a run of six pages does not fit in the gap of the first key, and a run of four does
        drop(first);
        assert_eq!([6 << 15, 4 << 15].map(|words| take(words).view(1).first), [7 << 15, 0]);
    }
}
