//! The assembler's figures for each entry of a cubin: registers, stack and shared memory, as `ptxas -v` prints them,
//! and the instructions by kind.
//!
//! The suite `nvrtc` compares these figures with budgets, and `gpu_check` computes a card's ceiling from those of a loop.
//!
//! A cubin is an ELF file. The numbers of registers and the sizes of stack frames are attributes of the section
//! `.nv.info`. Each attribute has a byte for the format, a byte for the kind, a length, and in these kinds a symbol and
//! a value. Shared memory is the size of `.nv.shared.ENTRY`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const REGISTERS: u8 = 0x2f;
const FRAME_BYTES: u8 = 0x11;
/// The format of attributes that have a length and then as many bytes as this length says. Attributes of other formats
/// have a value in place of the length.
const SIZED: u8 = 4;
/// Shared memory that the system reserves in each group since compute capability 9.0. The size of the section includes
/// this memory.
const SHARED_BYTES_RESERVED: u32 = 1024;
/// Size of an instruction, in bytes.
const INSTRUCTION_BYTES: usize = 16;
/// The kind of branches.
const BRANCH: u16 = 0x147;

/// The resources of a card that one entry takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Number of 32-bit registers of a thread.
    pub registers: u32,
    /// Memory of a thread for spilled registers and for arrays indexed at run time, in bytes.
    pub stack_bytes: u32,
    /// Statically declared shared memory of a group, in bytes.
    pub shared_bytes: u32,
    /// Size of the instructions in bytes, 16 for each.
    pub text_bytes: u32,
    /// Instructions of the whole text.
    pub count: Count,
    /// Instructions of one turn of the longest loop; all 0 if the text has no loop.
    pub turn: Count,
}

/// Instructions of a text, by the kinds that decide its speed. Each is counted once, however often it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// IMAD, including additions, shifts and moves for which the assembler uses the multiplier.
    pub multiply: u32,
    /// IMAD.HI.
    pub multiply_high: u32,
    /// IMAD.WIDE.
    pub multiply_wide: u32,
    /// IADD3 and VIADD.
    pub add: u32,
    /// VIADDMNMX, which adds two words and takes the minimum of the sum and a third word.
    pub add_min: u32,
    /// IMNMX and VIMNMX.
    pub min: u32,
    /// LOP3.
    pub logic: u32,
    /// LDG: loads of global memory.
    pub load_global: u32,
    /// LDS: loads of shared memory.
    pub load_shared: u32,
    /// All instructions of the unit for sums and logic: additions, minima, LOP3, and shifts, comparisons, selections and
    /// moves that do not use the multiplier.
    pub alu: u32,
    /// All instructions.
    pub issued: u32,
}

impl Count {
    fn of(text: &[u8]) -> Count {
        let mut count = Count::default();
        for instruction in text.chunks_exact(INSTRUCTION_BYTES) {
            count.issued += 1;
            let kind = kind(instruction);
            // the kinds in turn: MOV, SEL, ISETP, IADD3, LEA, LOP3, PRMT, IMNMX, SHF, VIADD, VIADDMNMX, VIMNMX
            let of_alu = [0x002, 0x007, 0x00c, 0x010, 0x011, 0x012, 0x016, 0x017, 0x019, 0x036, 0x046, 0x048];
            count.alu += u32::from(of_alu.contains(&kind));
            let field = match kind {
                0x024 => &mut count.multiply,
                0x027 => &mut count.multiply_high,
                0x025 => &mut count.multiply_wide,
                0x010 | 0x036 => &mut count.add,
                0x046 => &mut count.add_min,
                0x017 | 0x048 => &mut count.min,
                0x012 => &mut count.logic,
                0x181 => &mut count.load_global,
                0x184 => &mut count.load_shared,
                _ => continue,
            };
            *field += 1;
        }
        count
    }
}

/// The kind of an instruction: the low nine bits of its 128 bits, on all architectures since Volta (`nvdisasm -hex` prints
/// each instruction with its bits).
fn kind(instruction: &[u8]) -> u16 {
    u16::from_le_bytes([instruction[0], instruction[1]]) & 0x1ff
}

/// The bytes of the longest loop of a text: from the target of the branch that leads back the furthest to this branch.
///
/// A branch has the distance to its target, counted from the next instruction. Before compute capability 9.0, bits 32 to
/// 63 are the distance in bytes. Since then, bits 34 to 63 and 16 to 23 are the distance in units of four bytes, the high
/// part first. Every text ends with a branch to itself, whose bits tell the two forms apart.
fn longest_loop(text: &[u8]) -> Option<Range<usize>> {
    let instructions = text.chunks_exact(INSTRUCTION_BYTES).enumerate();
    let branches = instructions.filter(|(_, instruction)| kind(instruction) == BRANCH).map(|(i, instruction)| {
        let high = i32::from_le_bytes(instruction[4..8].try_into().expect("four bytes"));
        (INSTRUCTION_BYTES * (i + 1), i64::from(high), i64::from(instruction[2]))
    });
    let branches: Vec<(usize, i64, i64)> = branches.collect();
    let in_units = branches.iter().any(|&(_, high, low)| (high, low) == (-4, 0xfc));
    let loops = branches.into_iter().filter_map(|(end, high, low)| {
        let distance = if in_units { 4 * ((high >> 2 << 8) + low) } else { high };
        let length = usize::try_from(-distance).ok()?;
        Some(end.checked_sub(length)?..end)
    });
    // a branch to itself is no loop
    loops.filter(|text| text.len() > INSTRUCTION_BYTES).max_by_key(ExactSizeIterator::len)
}

/// The contents of a cubin.
pub struct Cubin {
    /// Every entry with its resources.
    pub entries: BTreeMap<String, Use>,
    /// Functions that the compiler added for calls, long divisions for instance.
    pub subroutines: BTreeSet<String>,
}

/// Reads a cubin.
///
/// # Panics
/// If the bytes are not a cubin of the known form.
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
    // an entry has a separate section; a subroutine lies within the section of another function
    let (entries, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        entries.into_iter().partition(|(name, _)| section(&format!(".text.{name}")).is_some());
    let mut cubin = Cubin { entries, subroutines: others.into_keys().collect() };
    let reserved = if section(".nv.shared.reserved.0").is_some() { SHARED_BYTES_RESERVED } else { 0 };
    for (name, used) in &mut cubin.entries {
        let shared = section(&format!(".nv.shared.{name}")).map_or(0, |shared| shared.size as u32);
        used.shared_bytes = shared.saturating_sub(reserved);
        let text = section(&format!(".text.{name}")).expect("an entry has its own section");
        used.text_bytes = text.size as u32;
        let text = &elf.0[text.offset..text.offset + text.size];
        used.count = Count::of(text);
        used.turn = longest_loop(text).map_or_else(Count::default, |turn| Count::of(&text[turn]));
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
