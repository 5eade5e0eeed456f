//! Which of the kernels with transforms in registers takes a batch, and how many rows its groups have: all that is decided
//! by how many rows there are and how many multiprocessors a card has.
//!
//! No threshold here was measured on a card yet; they are reckoned for 132 multiprocessors at 1.98 GHz and `fast_128`, and
//! stated in rounds and rows a multiprocessor, so that they move with the card. `scripts/gpu-check` measures on both sides
//! of each.

/// Groups of `blind_rotate.cluster` that a multiprocessor runs at the same time.
const CLUSTER_GROUPS_OF_A_MULTIPROCESSOR: usize = 2;
/// Rounds of clusters, of some 1.2 ms each, that are sooner done than one of groups of two rows, of some 4 ms.
const CLUSTER_ROUNDS_MAX: usize = 3;
/// What a step costs a group beside its rows, in rows: one of two rows takes two fifths of the time of one of eight.
const OVERHEAD_ROWS: usize = 2;
/// Groups come in steps of this many rows, so that the four schedulers of a multiprocessor have as many warps each.
const GATES_STEP: u32 = 2;

/// The way of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A row over several groups.
    Cluster,
    /// Groups of this many rows.
    Warp(u32),
}

/// What is chosen from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// Rows of a group, by kernel, rising.
    pub gates: Vec<u32>,
    /// Rows of a batch that go by clusters at most; 0: none does.
    pub cluster_rows_max: usize,
    pub multiprocessors: usize,
}

/// Numbers of rows that groups have on a card whose groups have at most `most`: every even one, and the most.
pub fn gates_up_to(most: u32) -> Vec<u32> {
    let even = (GATES_STEP..most).step_by(GATES_STEP as usize);
    even.chain([most]).collect()
}

/// Rows that go by clusters at most, on a card of clusters; `groups` are those of a row.
pub fn cluster_rows_max(multiprocessors: usize, groups: usize) -> usize {
    (CLUSTER_ROUNDS_MAX * CLUSTER_GROUPS_OF_A_MULTIPROCESSOR * multiprocessors / groups).max(1)
}

impl Ways {
    /// The way that is reckoned to be done first for batches of so many rows, which go together: a group has rows of one.
    pub fn of(&self, rows: &[usize]) -> Way {
        if rows.iter().sum::<usize>() <= self.cluster_rows_max {
            return Way::Cluster;
        }
        let time = |gates: u32| {
            let groups: usize = rows.iter().map(|rows| rows.div_ceil(gates as usize)).sum();
            groups.div_ceil(self.multiprocessors) * (OVERHEAD_ROWS + gates as usize)
        };
        // of two that take as long, the one that reads less of the key
        let gates = self.gates.iter().rev().copied().min_by_key(|&gates| time(gates));
        Way::Warp(gates.expect("there is a kernel"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_goes_by_clusters_then_by_groups_of_as_many_rows_as_each_multiprocessor_has() {
        let h100 = Ways { gates: gates_up_to(8), cluster_rows_max: cluster_rows_max(132, 4), multiprocessors: 132 };
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
            // two waves either way: smaller groups are sooner done
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
    fn batches_that_go_together_count_the_groups_of_all_of_them() {
        let h100 = Ways { gates: gates_up_to(8), cluster_rows_max: cluster_rows_max(132, 4), multiprocessors: 132 };
        let rtx = Ways { gates: gates_up_to(3), cluster_rows_max: 0, multiprocessors: 128 };
        // keys, rows of each: a row of each key fills no group, so groups are as small as there are
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
    fn cards_with_less_shared_memory_have_fewer_rows_a_group() {
        let rtx = Ways { gates: gates_up_to(3), cluster_rows_max: 0, multiprocessors: 128 };
        assert_eq!(rtx.gates, [2, 3]);
        assert_eq!([1, 256, 257, 384, 385].map(|rows| rtx.of(&[rows])), [2, 2, 3, 3, 2].map(Way::Warp));
        let a100 = Ways { gates: gates_up_to(4), cluster_rows_max: 54, multiprocessors: 108 };
        assert_eq!(a100.gates, [2, 4]);
        assert_eq!(
            [54, 55, 216, 217].map(|rows| a100.of(&[rows])),
            [Way::Cluster, Way::Warp(2), Way::Warp(2), Way::Warp(4)]
        );
        assert_eq!((gates_up_to(1), gates_up_to(2)), (vec![1], vec![2]));
    }
}
