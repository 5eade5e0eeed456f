//! What the assembler says in a cubin about each entry: registers, stack, shared memory. The figures of `ptxas -v`.
//!
//! A cubin is an ELF file. Registers and frames are attributes of section `.nv.info`: a byte of format, a byte of kind, a
//! length, then here a symbol and a value. Shared memory is the size of `.nv.shared.ENTRY`.

use std::collections::{BTreeMap, BTreeSet};

const REGISTERS: u8 = 0x2f;
const FRAME_BYTES: u8 = 0x11;
/// The format of attributes that have a length and so many bytes; others have their value in the place of the length.
const SIZED: u8 = 4;
/// Shared memory that the system keeps of each group since compute capability 9.0, and the section counts in.
const SHARED_BYTES_RESERVED: u32 = 1024;

/// What one entry takes of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// 32-bit registers of a thread.
    pub registers: u32,
    /// Memory of a thread for what found no register, and for arrays indexed at run time.
    pub stack_bytes: u32,
    /// Shared memory of a group whose size is in the source.
    pub shared_bytes: u32,
}

/// What a cubin holds.
pub struct Cubin {
    /// Every entry and what it takes.
    pub entries: BTreeMap<String, Use>,
    /// Functions that the compiler has put beside them, to be called: long divisions for instance.
    pub subroutines: BTreeSet<String>,
}

/// Reads a cubin.
///
/// # Panics
/// When it is not a cubin as this reader knows them.
pub fn read(cubin: &[u8]) -> Cubin {
    let elf = Elf(cubin);
    assert!(cubin.starts_with(b"\x7fELF\x02\x01"), "a 64-bit little-endian ELF file");
    let sections = elf.sections();
    let section = |name: &str| sections.iter().find(|section| section.name == name);
    let symbols = section(".symtab").expect("symbols");
    let (info, names) = (section(".nv.info").expect("attributes"), &sections[symbols.link as usize]);
    let mut entries: BTreeMap<String, Use> = BTreeMap::new();
    let (mut at, end) = (info.offset, info.offset + info.size);
    while at < end {
        let [format, kind] = [cubin[at], cubin[at + 1]];
        let size = elf.half(at + 2) as usize;
        at += 4;
        if format != SIZED {
            continue;
        }
        if matches!(kind, REGISTERS | FRAME_BYTES) {
            assert_eq!(size, 8, "a symbol and a value");
            let symbol = symbols.offset + 24 * elf.word(at) as usize;
            let used = entries.entry(elf.text(names.offset + elf.word(symbol) as usize)).or_default();
            match kind {
                REGISTERS => used.registers = elf.word(at + 4),
                _ => used.stack_bytes = elf.word(at + 4),
            }
        }
        at += size;
    }
    // an entry has a section of its own, a subroutine lies within one
    let (entries, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        entries.into_iter().partition(|(name, _)| section(&format!(".text.{name}")).is_some());
    let mut cubin = Cubin { entries, subroutines: others.into_keys().collect() };
    let reserved = if section(".nv.shared.reserved.0").is_some() { SHARED_BYTES_RESERVED } else { 0 };
    for (name, used) in &mut cubin.entries {
        let shared = section(&format!(".nv.shared.{name}")).map_or(0, |shared| shared.size as u32);
        used.shared_bytes = shared.saturating_sub(reserved);
    }
    cubin
}

struct Section {
    name: String,
    offset: usize,
    size: usize,
    link: u32,
}

struct Elf<'a>(&'a [u8]);

impl Elf<'_> {
    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.0[at..at + 2].try_into().expect("two bytes"))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn long(&self, at: usize) -> usize {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes")) as usize
    }

    fn text(&self, at: usize) -> String {
        let text = self.0[at..].split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8(text.to_vec()).expect("names are text")
    }

    fn sections(&self) -> Vec<Section> {
        let (table, count, names) = (self.long(40), self.half(60) as usize, self.half(62) as usize);
        let header = |i: usize| table + 64 * i;
        let name = |i: usize| self.text(self.long(header(names) + 24) + self.word(header(i)) as usize);
        let section = |i: usize| Section {
            name: name(i),
            offset: self.long(header(i) + 24),
            size: self.long(header(i) + 32),
            link: self.word(header(i) + 40),
        };
        (0..count).map(section).collect()
    }
}
