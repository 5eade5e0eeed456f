//! The memory that this process may use: the system's, or less if its control group has a limit.
//!
//! Source: the kernel's admin-guide, `cgroup-v2.rst` (`memory.max`, `memory.high`), `cgroup-v1/memory.rst`
//! (`memory.limit_in_bytes`), and proc(5) (`/proc/self/cgroup`, `/proc/self/mountinfo`, `/proc/meminfo`).

use std::path::{Path, PathBuf};

/// The assumed memory if the system does not report it.
const UNTOLD_BYTES: u64 = 8 << 30;

/// Returns the number of bytes that this process may use: the smallest of the system's memory and the limits of the
/// process's control group and of all parent groups.
pub fn host_memory_bytes() -> u64 {
    bytes_of(&|path| std::fs::read_to_string(path).ok())
}

/// Like [`host_memory_bytes`], but with `read` in place of the file system.
fn bytes_of(read: &dyn Fn(&Path) -> Option<String>) -> u64 {
    let total = read(Path::new("/proc/meminfo")).and_then(|text| memory_total(&text));
    let limits = folders(read).into_iter().flat_map(|(folder, names)| {
        let limits = names.iter().filter_map(|name| read(&folder.join(name))?.trim().parse::<u64>().ok());
        limits.collect::<Vec<_>>()
    });
    limits.chain([total.unwrap_or(UNTOLD_BYTES)]).min().expect("the system's memory is one of them")
}

fn memory_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Names of the files that hold a group's limit.
type Names = &'static [&'static str];

/// Lists the folders that may hold memory limits: for each of this process's control groups, the folder of the group
/// and all parent folders, as far as they are mounted.
fn folders(read: &dyn Fn(&Path) -> Option<String>) -> Vec<(PathBuf, Names)> {
    let (Some(groups), Some(mounts)) = (read(Path::new("/proc/self/cgroup")), read(Path::new("/proc/self/mountinfo")))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for line in groups.lines() {
        // a line is number:controllers:path; in version 2, the number is 0 and the controllers are empty
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let (kind, names): (_, Names) = match controllers {
            "" => ("cgroup2", &["memory.max", "memory.high"]),
            named if named.split(',').any(|name| name == "memory") => ("cgroup", &["memory.limit_in_bytes"]),
            _ => continue,
        };
        for mount in mounts.lines().filter_map(Mount::of) {
            let limits_memory = kind == "cgroup2" || mount.options.split(',').any(|option| option == "memory");
            if mount.kind == kind && limits_memory {
                found.extend(mount.folders_of(Path::new(group)).into_iter().map(|folder| (folder, names)));
            }
        }
    }
    found
}

/// The relevant fields of a line of `mountinfo`.
struct Mount<'a> {
    /// The part of the file system that is mounted.
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    /// Options of the file system.
    options: &'a str,
}

impl Mount<'_> {
    /// Reads a line of the form `id parent device root point options optional.. - kind source options`.
    fn of(line: &str) -> Option<Mount<'_>> {
        let (mount, system) = line.split_once(" - ")?;
        let (mut mount, mut system) = (mount.split(' ').skip(3), system.split(' '));
        let (root, point) = (unescaped(mount.next()?), unescaped(mount.next()?));
        Some(Mount { root, point, kind: system.next()?, options: system.nth(1)? })
    }

    /// Lists the folder of a group and its parent folders, up to the mount point. If the group is outside the mounted
    /// part (its path is then given as seen from outside the container), its limits are at the mount point.
    fn folders_of(&self, group: &Path) -> Vec<PathBuf> {
        let below = group.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let is_plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let folder = if is_plain { self.point.join(below) } else { self.point.clone() };
        folder.ancestors().take_while(|above| above.starts_with(&self.point)).map(Path::to_owned).collect()
    }
}

/// Replaces the octal escapes of spaces, tabs, line feeds and backslashes.
fn unescaped(path: &str) -> PathBuf {
    PathBuf::from(path.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       65843012 kB\nMemFree:        123 kB\n";
    const TOTAL: u64 = 65_843_012 * 1024;
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "35 32 0:31 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                      36 32 0:32 / /sys/fs/cgroup/memory rw shared:10 master:2 - cgroup cgroup rw,memory\n";

    fn bytes(files: &[(&str, &str)]) -> u64 {
        bytes_of(&|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    fn with(cgroup: &str, mounts: &str, limits: &[(&str, &str)]) -> u64 {
        let system = [("/proc/meminfo", MEMINFO), ("/proc/self/cgroup", cgroup), ("/proc/self/mountinfo", mounts)];
        bytes(&[&system[..], limits].concat())
    }

    #[test]
    fn without_a_group_it_is_the_systems_memory_and_without_a_word_of_that_eight_gigabytes() {
        assert_eq!(bytes(&[("/proc/meminfo", MEMINFO)]), TOTAL);
        assert_eq!(bytes(&[]), UNTOLD_BYTES);
        assert_eq!(with("nonsense\n0\n\n", "nonsense - \n - x\n", &[]), TOTAL);
    }

    #[test]
    fn a_container_of_version_2_sees_its_limit_at_the_root_of_its_mount() {
        let limits = [("/sys/fs/cgroup/memory.max", "2147483648\n"), ("/sys/fs/cgroup/memory.high", "max\n")];
        assert_eq!(with("0::/\n", V2, &limits), 2 << 30);
    }

    #[test]
    fn the_smallest_limit_up_the_tree_counts() {
        let group = "0::/system.slice/ango.service/worker\n";
        let limits = [
            ("/sys/fs/cgroup/system.slice/ango.service/worker/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/ango.service/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/system.slice/ango.service/memory.high", "3221225472\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "8589934592\n"),
            ("/sys/fs/cgroup/other/memory.max", "1\n"),
        ];
        assert_eq!(with(group, V2, &limits), 3 << 30);
        assert_eq!(with(group, V2, &limits[..1]), TOTAL, "max is no limit");
        assert_eq!(with(group, V2, &[("/sys/fs/cgroup/system.slice/memory.max", "99999999999999\n")]), TOTAL);
    }

    #[test]
    fn version_1_has_a_mount_for_memory_alone() {
        let group = "9:cpu,cpuacct:/elsewhere\n4:memory:/docker/abc\n0::/\n";
        let limits = [
            ("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "1073741824\n"),
            ("/sys/fs/cgroup/cpu/elsewhere/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(with(group, V1, &limits), 1 << 30);
        assert_eq!(with(group, V1, &limits[..1]), TOTAL, "the largest number is no limit");
    }

    #[test]
    fn a_container_whose_group_is_told_from_outside_finds_it_where_it_is_mounted() {
        let mounts = "36 32 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let limit = [("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n")];
        for group in ["4:memory:/docker/abc\n", "4:memory:/../def\n", "4:memory:/kubepods/pod1\n"] {
            assert_eq!(with(group, mounts, &limit), 1 << 30, "{group}");
        }
        let below = [("/sys/fs/cgroup/memory/init/memory.limit_in_bytes", "1048576\n")];
        assert_eq!(with("4:memory:/docker/abc/init\n", mounts, &[&limit[..], &below].concat()), 1 << 20);
    }

    #[test]
    fn a_path_with_spaces_is_found() {
        let mounts = "30 23 0:26 / /sys/my\\040groups rw - cgroup2 cgroup2 rw\n";
        assert_eq!(with("0::/\n", mounts, &[("/sys/my groups/memory.max", "4096\n")]), 4096);
    }

    #[test]
    fn this_machine_has_some() {
        assert!(host_memory_bytes() > 1 << 20);
    }
}
