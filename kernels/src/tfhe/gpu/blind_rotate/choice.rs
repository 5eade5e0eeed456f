//! Chooses the kernel for a batch among the kernels with transforms in registers, and the number of rows in a group.
//! The choice depends on the number of rows and the number of multiprocessors.
//!
//! The estimates were measured on an H200 (132 multiprocessors at 1.98 GHz) with `fast_128` and `fast_128_k2`
//! (`benches/results/2026-11-27-gpu-h200.md`). They are expressed in rounds and in rows of a multiprocessor, so that they
//! scale with the GPU. `scripts/gpu-check` measures times below and above each threshold.

/// Largest number of groups of `blind_rotate.cluster` for each multiprocessor with which a batch is not slower than in
/// groups of two rows. The number of groups that a multiprocessor runs at once does not decide, because groups that run
/// side by side slow each other down: by clusters, 64 rows of `fast_128` take 2.1 ms and 132 rows take 3.6 ms (2 and 4
/// groups for each multiprocessor, which runs 3), and 264 rows by groups of two rows take 4.9 ms. Of `fast_128_k2`, 64
/// rows take 1.7 ms, 132 rows 3.2 ms (3 and 6 groups, of which 6 run), and 264 rows by groups of two rows 3.6 ms.
const CLUSTER_GROUPS_MAX: usize = 6;
/// Largest number of rounds of clusters in a batch. On a card with room for few clusters, this number is the bound.
const CLUSTER_ROUNDS_MAX: usize = 3;
/// The numbers of rows in a group are multiples of this number, so that the four schedulers of a multiprocessor have
/// equally many warps.
const GATES_STEP: u32 = 2;

/// The time in which a multiprocessor rotates this number of rows together, in quarter milliseconds. With few rows the warps
/// do not hide each other's waits. From four rows on, the time grows with the number of rows.
fn time_of_rows(rows: usize) -> usize {
    (16 + 2 * rows).max(4 + 5 * rows)
}

/// The kernel for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `blind_rotate.cluster`: several groups share a row.
    Cluster,
    /// `blind_rotate.warp`: groups of this many rows.
    Warp(u32),
}

/// The available kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The number of rows in a group of each `blind_rotate.warp` kernel, ascending.
    pub gates: Vec<u32>,
    /// Number of groups of `blind_rotate.warp` that run on a multiprocessor at the same time.
    pub groups: usize,
    /// Largest number of rows in a batch that uses clusters; 0 means that no batch uses them.
    pub cluster_rows_max: usize,
    pub multiprocessors: usize,
}

/// The group sizes on a GPU whose groups have at most `most` rows: all even numbers below `most`, and `most`.
pub fn gates_up_to(most: u32) -> Vec<u32> {
    let even = (GATES_STEP..most).step_by(GATES_STEP as usize);
    even.chain([most]).collect()
}

/// Largest number of rows in a batch that uses clusters. `groups` is the number of groups in a row's cluster, and
/// `at_once` is the number of clusters that the GPU runs at the same time. 0 if the GPU does not run such clusters.
pub fn cluster_rows_max(multiprocessors: usize, groups: usize, at_once: usize) -> usize {
    let of_all_groups = CLUSTER_GROUPS_MAX * multiprocessors / groups;
    of_all_groups.max(1).min(at_once.saturating_mul(CLUSTER_ROUNDS_MAX))
}

impl Ways {
    /// The kernel with the shortest estimated time for batches with these numbers of rows, which run together. All rows
    /// of a group belong to one batch.
    pub fn of(&self, rows: &[usize]) -> Way {
        if rows.iter().sum::<usize>() <= self.cluster_rows_max {
            return Way::Cluster;
        }
        let time = |gates: u32| {
            let groups: usize = rows.iter().map(|rows| rows.div_ceil(gates as usize)).sum();
            let of_a_multiprocessor = groups.div_ceil(self.multiprocessors);
            let round = |groups: usize| if groups == 0 { 0 } else { time_of_rows(groups * gates as usize) };
            of_a_multiprocessor / self.groups * round(self.groups) + round(of_a_multiprocessor % self.groups)
        };
        // among equal times, prefer the larger group, because it reads the key for more rows at once
        let gates = self.gates.iter().rev().copied().min_by_key(|&gates| time(gates));
        Way::Warp(gates.expect("there is a kernel"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_goes_by_clusters_then_by_groups_of_as_many_rows_as_each_multiprocessor_has() {
        let h100 = Ways {
            gates: gates_up_to(8),
            groups: 1,
            cluster_rows_max: cluster_rows_max(132, 4, 99),
            multiprocessors: 132,
        };
        assert_eq!(h100.gates, [2, 4, 6, 8]);
        let expected = [
            (1, Way::Cluster),
            (132, Way::Cluster),
            (198, Way::Cluster),
            (199, Way::Warp(2)),
            (264, Way::Warp(2)),
            (265, Way::Warp(4)),
            (528, Way::Warp(4)),
            (529, Way::Warp(6)),
            (792, Way::Warp(6)),
            (793, Way::Warp(8)),
            (1056, Way::Warp(8)),
            // groups of six and groups of eight rows both need two waves, and the smaller groups finish sooner
            (1057, Way::Warp(6)),
            (1584, Way::Warp(6)),
            (2112, Way::Warp(8)),
            (16384, Way::Warp(8)),
        ];
        for (rows, way) in expected {
            assert_eq!(h100.of(&[rows]), way, "{rows} rows");
        }
    }

    #[test]
    fn two_groups_of_a_multiprocessor_take_the_time_of_their_rows() {
        let h100 = Ways {
            gates: gates_up_to(4),
            groups: 2,
            cluster_rows_max: cluster_rows_max(132, 6, 132),
            multiprocessors: 132,
        };
        let expected = [
            (132, Way::Cluster),
            (133, Way::Warp(2)),
            (264, Way::Warp(2)),
            (265, Way::Warp(4)),
            (528, Way::Warp(4)),
            // one round of two groups of four rows; groups of two rows would need two rounds
            (1056, Way::Warp(4)),
            (2112, Way::Warp(4)),
            (16384, Way::Warp(4)),
        ];
        for (rows, way) in expected {
            assert_eq!(h100.of(&[rows]), way, "{rows} rows");
        }
    }

    #[test]
    fn batches_that_go_together_count_the_groups_of_all_of_them() {
        let h100 = Ways {
            gates: gates_up_to(8),
            groups: 1,
            cluster_rows_max: cluster_rows_max(132, 4, 99),
            multiprocessors: 132,
        };
        let rtx = Ways { gates: gates_up_to(3), groups: 1, cluster_rows_max: 0, multiprocessors: 128 };
        // each line: number of keys, rows of each key, expected kernels. With one row of each key no group is full, so
        // the smallest groups are best
        let expected = [
            (64, 1, Way::Cluster, Way::Warp(2)),
            (198, 1, Way::Cluster, Way::Warp(2)),
            (199, 1, Way::Warp(2), Way::Warp(2)),
            (128, 2, Way::Warp(2), Way::Warp(2)),
            (128, 3, Way::Warp(4), Way::Warp(3)),
            (64, 9, Way::Warp(6), Way::Warp(3)),
            (132, 8, Way::Warp(8), Way::Warp(3)),
        ];
        for (keys, rows, on_h100, on_rtx) in expected {
            let rows = vec![rows; keys];
            assert_eq!((h100.of(&rows), rtx.of(&rows)), (on_h100, on_rtx), "{keys} keys of {} rows", rows[0]);
        }
    }

    #[test]
    fn a_card_with_room_for_few_clusters_uses_them_for_few_rows() {
        // a card of 132 multiprocessors, and a part of a card with 16
        assert_eq!([0, 1, 16, 66, 67, 99].map(|at_once| cluster_rows_max(132, 4, at_once)), [0, 3, 48, 198, 198, 198]);
        assert_eq!([0, 1, 4, 12].map(|at_once| cluster_rows_max(16, 6, at_once)), [0, 3, 12, 16]);
        // a GPU with clusters uses them for one row at least
        assert_eq!([0, 1, usize::MAX].map(|at_once| cluster_rows_max(1, 8, at_once)), [0, 1, 1]);
        let refused = Ways {
            gates: gates_up_to(8),
            groups: 1,
            cluster_rows_max: cluster_rows_max(132, 4, 0),
            multiprocessors: 132,
        };
        assert_eq!(refused.of(&[1]), Way::Warp(2));
    }

    #[test]
    fn cards_with_less_shared_memory_have_fewer_rows_a_group() {
        let rtx = Ways { gates: gates_up_to(3), groups: 1, cluster_rows_max: 0, multiprocessors: 128 };
        assert_eq!(rtx.gates, [2, 3]);
        assert_eq!([1, 256, 257, 384, 385].map(|rows| rtx.of(&[rows])), [2, 2, 3, 3, 2].map(Way::Warp));
        let a100 = Ways { gates: gates_up_to(4), groups: 1, cluster_rows_max: 54, multiprocessors: 108 };
        assert_eq!(a100.gates, [2, 4]);
        assert_eq!(
            [54, 55, 216, 217].map(|rows| a100.of(&[rows])),
            [Way::Cluster, Way::Warp(2), Way::Warp(2), Way::Warp(4)]
        );
        assert_eq!((gates_up_to(1), gates_up_to(2)), (vec![1], vec![2]));
    }
}
