//! Matching of records, compared with a search that tries every subset.

use proptest::prelude::*;

use super::*;

fn reconcile(left: &[Record], right: &[Record], tolerance: Decimal) -> Reconciled {
    super::reconcile(left, right, tolerance, Limit::NONE).unwrap()
}

fn records(of: &[(&str, i64)]) -> Vec<Record> {
    let record =
        |(name, amount): &(&str, i64)| Record { key: key(NameKind::Bank, name), amount: Some(Decimal::from(*amount)) };
    of.iter().map(record).collect()
}

fn pair(left: &[usize], right: &[usize], difference: i64) -> Match {
    Match { left: left.to_vec(), right: right.to_vec(), difference: Decimal::from(difference) }
}

#[test]
fn the_example_of_the_fact_sheet() {
    let left =
        records(&[("ヤマダショウジ", 110_000), ("ヤマダショウジ", 55_000), ("タクミ", 33_000), ("ミライ", 20_000)]);
    let right = records(&[("ｶ)ﾔﾏﾀﾞｼﾖｳｼﾞ", 165_000), ("ﾕ)ﾀｸﾐ", 32_560), ("ｿﾗ", 5_000)]);
    let found = reconcile(&left, &right, Decimal::from(440));
    assert_eq!(found.matched, [pair(&[0, 1], &[0], 0), pair(&[2], &[1], 440)]);
    assert_eq!((found.amount_mismatch, found.left_only, found.right_only), (vec![], vec![3], vec![2]));
    let strict = reconcile(&left, &right, Decimal::from(439));
    assert_eq!(strict.amount_mismatch, [pair(&[2], &[1], 440)]);
}

#[test]
fn equal_amounts_come_before_close_ones_and_close_ones_before_groups() {
    let left = records(&[("ア", 100), ("ア", 100), ("ア", 205)]);
    let right = records(&[("ア", 200), ("ア", 100), ("ア", 101)]);
    let found = reconcile(&left, &right, Decimal::from(5));
    assert_eq!(found.matched, [pair(&[0], &[1], 0), pair(&[1], &[2], -1), pair(&[2], &[0], 5)]);
    // the closest pair is matched first, whatever the order of the input
    let found = reconcile(&records(&[("ア", 10), ("ア", 14)]), &records(&[("ア", 15), ("ア", 19)]), Decimal::from(9));
    assert_eq!(found.matched, [pair(&[0], &[1], -9), pair(&[1], &[0], -1)]);
    // six records can be a group, seven cannot
    let parts = |count: i64| records(&vec![("ア", 7); count as usize]);
    assert_eq!(reconcile(&records(&[("ア", 42)]), &parts(6), Decimal::ZERO).matched.len(), 1);
    assert_eq!(reconcile(&records(&[("ア", 49)]), &parts(7), Decimal::ZERO).matched, []);
}

#[test]
fn names_match_without_amounts() {
    let record = |name: &str| Record { key: key(NameKind::Text, name), amount: None };
    let found = reconcile(&[record("Ａｂｃ"), record("x")], &[record("abc")], Decimal::ZERO);
    assert_eq!((found.matched, found.left_only), (vec![pair(&[0], &[0], 0)], vec![1]));
}

#[test]
fn many_records_of_one_name_are_matched() {
    let one = |step: i64| -> Vec<Record> {
        let amount = |n: i64| Record { key: "A".to_owned(), amount: Some(Decimal::from(n * step)) };
        (0..2_000).map(amount).collect()
    };
    let found = reconcile(&one(10), &one(11), Decimal::from(3));
    let lists = found.matched.iter().map(|one| one.left.len()).sum::<usize>() + found.amount_mismatch.len();
    assert_eq!(lists + found.left_only.len(), 2_000);
}

proptest! {
    #[test]
    fn each_record_is_in_one_list_and_matches_are_within_the_tolerance(
        left in proptest::collection::vec((0usize..3, 0i64..40), 0..25),
        right in proptest::collection::vec((0usize..3, 0i64..40), 0..25),
        tolerance in 0i64..5,
    ) {
        let side = |of: &[(usize, i64)]| -> Vec<Record> {
            let record = |(name, amount): &(usize, i64)| Record {
                key: ["a", "b", "c"][*name].to_owned(),
                amount: Some(Decimal::from(*amount)),
            };
            of.iter().map(record).collect()
        };
        let (left, right) = (side(&left), side(&right));
        let found = reconcile(&left, &right, Decimal::from(tolerance));
        let pairs = || found.matched.iter().chain(&found.amount_mismatch);
        let mut of_left: Vec<usize> = pairs().flat_map(|one| one.left.clone()).chain(found.left_only.clone()).collect();
        let mut of_right: Vec<usize> = pairs().flat_map(|one| one.right.clone()).chain(found.right_only.clone()).collect();
        of_left.sort_unstable();
        of_right.sort_unstable();
        prop_assert_eq!(of_left, (0..left.len()).collect::<Vec<_>>());
        prop_assert_eq!(of_right, (0..right.len()).collect::<Vec<_>>());
        for one in &found.matched {
            prop_assert!(one.difference.abs() <= Decimal::from(tolerance));
        }
        for one in pairs() {
            let keys: Vec<&str> = one.left.iter().map(|at| &*left[*at].key).chain(one.right.iter().map(|at| &*right[*at].key)).collect();
            prop_assert!(keys.windows(2).all(|two| two[0] == two[1]));
        }
        // a name never has unmatched records on both sides
        let alone = |places: &[usize], records: &[Record]| -> HashSet<String> {
            places.iter().map(|at| records[*at].key.clone()).collect()
        };
        prop_assert!(alone(&found.left_only, &left).is_disjoint(&alone(&found.right_only, &right)));
    }
}

/// The definition of groups: the first of the smallest subsets in lexical order, found by trying every subset.
fn slow_group(whole: i64, parts: &[(usize, i64)], tolerance: i64) -> Option<Vec<usize>> {
    fn choose(rest: i64, parts: &[(usize, i64)], tolerance: i64, count: usize, chosen: &mut Vec<usize>) -> bool {
        if count == 0 {
            return rest.abs() <= tolerance;
        }
        for (at, (place, amount)) in parts.iter().enumerate() {
            chosen.push(*place);
            if choose(rest - amount, &parts[at + 1..], tolerance, count - 1, chosen) {
                return true;
            }
            chosen.pop();
        }
        false
    }
    let parts = &parts[..parts.len().min(20)];
    (2..=6.min(parts.len())).find_map(|count| {
        let mut chosen = Vec::new();
        choose(whole, parts, tolerance, count, &mut chosen).then_some(chosen)
    })
}

/// Matches the groups of one name that has no pairs within the tolerance.
fn slow_groups(left: &[i64], right: &[i64], tolerance: i64) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut sides = [left, right].map(|side| side.iter().copied().enumerate().collect::<Vec<_>>());
    let mut found = Vec::new();
    for tolerance in [0, tolerance] {
        for side in [0, 1] {
            let wholes: Vec<(usize, i64)> = sides[side].iter().copied().take(20).collect();
            for (at, amount) in wholes {
                let Some(group) = slow_group(amount, &sides[1 - side], tolerance) else { continue };
                sides[side].retain(|(other, _)| *other != at);
                sides[1 - side].retain(|(other, _)| !group.contains(other));
                found.push(if side == 0 { (vec![at], group) } else { (group, vec![at]) });
            }
        }
    }
    found.sort();
    found
}

/// Amounts of one name as records.
fn of_one_name(amounts: &[i64]) -> Vec<Record> {
    amounts.iter().map(|amount| Record { key: "a".to_owned(), amount: Some(Decimal::from(*amount)) }).collect()
}

fn assert_as_defined(left: &[i64], right: &[i64], tolerance: i64) {
    let found = reconcile(&of_one_name(left), &of_one_name(right), Decimal::from(tolerance));
    let of_groups = found.matched.iter().filter(|one| one.left.len() + one.right.len() > 2);
    let groups: Vec<_> = of_groups.map(|one| (one.left.clone(), one.right.clone())).collect();
    let (paired_left, paired_right): (HashSet<usize>, HashSet<usize>) = found
        .matched
        .iter()
        .filter(|one| one.left.len() + one.right.len() == 2)
        .map(|one| (one.left[0], one.right[0]))
        .unzip();
    // the definition sees the records that no pair took, and its places are those among these records
    let places =
        |of: &[i64], paired: &HashSet<usize>| (0..of.len()).filter(|at| !paired.contains(at)).collect::<Vec<_>>();
    let (left_places, right_places) = (places(left, &paired_left), places(right, &paired_right));
    let amounts = |of: &[i64], places: &[usize]| places.iter().map(|at| of[*at]).collect::<Vec<_>>();
    let slow = slow_groups(&amounts(left, &left_places), &amounts(right, &right_places), tolerance);
    let placed = |at: &[usize], places: &[usize]| at.iter().map(|at| places[*at]).collect::<Vec<_>>();
    let mut slow: Vec<_> = slow
        .iter()
        .map(|(of_left, of_right)| (placed(of_left, &left_places), placed(of_right, &right_places)))
        .collect();
    slow.sort();
    assert_eq!(groups, slow, "{left:?} {right:?} {tolerance}");
    assert_eq!(found.groups_cut, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a1_groups_are_those_of_a_search_through_every_subset(
        left in proptest::collection::vec(-60i64..300, 0..12),
        right in proptest::collection::vec(-20i64..90, 0..14),
        few in proptest::collection::vec(0usize..3, 0..30),
        tolerance in 0i64..6,
    ) {
        assert_as_defined(&left, &right, tolerance);
        assert_as_defined(&right, &left, 0);
        // equal amounts: many groups have the same sum
        let equal: Vec<i64> = few.iter().map(|at| [700, 1_100, 3_300][*at]).collect();
        assert_as_defined(&[2_100, 4_400, 6_600, 5_101, 9_900], &equal, tolerance);
        // amounts in which most sums are missing by little
        let sparse = |of: &[i64]| of.iter().map(|one| one * one * one).collect::<Vec<_>>();
        assert_as_defined(&sparse(&left), &sparse(&right), tolerance * 40);
    }
}

#[test]
fn a1_more_records_than_candidates_give_the_groups_of_the_definition() {
    let left: Vec<i64> = (0..30).map(|n| 1_000 + 97 * n).collect();
    let right: Vec<i64> = (0..45).map(|n| 301 + 13 * n).collect();
    assert_as_defined(&left, &right, 0);
    assert_as_defined(&right, &left, 7);
}

#[test]
fn a1_groups_of_large_small_and_fractional_amounts_are_exact() {
    let side = |amounts: &[&str]| -> Vec<Record> {
        amounts.iter().map(|text| Record { key: "a".to_owned(), amount: amount(text) }).collect()
    };
    for (whole, parts) in [
        ("0.3", ["0.1", "0.2"]),
        ("1999999999999999999999999998", ["999999999999999999999999999", "999999999999999999999999999"]),
        ("-500", ["-200", "-300.00"]),
        ("1000000000000.5", ["999999999999", "1.5"]),
    ] {
        let found = reconcile(&side(&[whole]), &side(&parts), Decimal::ZERO);
        assert_eq!((found.matched, found.groups_cut), (vec![pair(&[0], &[0, 1], 0)], 0), "{whole}");
    }
    // no common unit of these amounts is small enough to add them up
    let found = reconcile(
        &side(&["7000000000000000000000000000"]),
        &side(&["1", "0.0000000000000000000000000001"]),
        Decimal::ZERO,
    );
    assert_eq!((found.matched.len(), found.groups_cut, found.amount_mismatch.len()), (0, 1, 1));
}

/// A thousand names with 20 records on each side, whose amounts are drawn by this function.
fn thousand_names(mut amount: impl FnMut(usize) -> i64) -> [Vec<Record>; 2] {
    let mut side = |side: usize| -> Vec<Record> {
        let record = |at: usize| Record { key: (at / 20).to_string(), amount: Some(Decimal::from(amount(side))) };
        (0..20_000).map(record).collect()
    };
    [side(0), side(1)]
}

/// Numbers that look random: a linear congruence (MMIX).
fn congruence() -> impl FnMut() -> i64 {
    let mut state = 7u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as i64
    }
}

#[test]
fn a1_a_full_request_whose_amounts_fit_nothing_is_searched_whole() {
    let mut random = congruence();
    let [left, right] = thousand_names(|side| [40_000_000_000, 10_000_000_000][side] + 1_009 * random());
    let mut budget = Budget::of(STEPS_MAX);
    let found = within(&left, &right, Decimal::ZERO, &mut budget, Limit::NONE).unwrap();
    assert_eq!((found.groups_cut, budget.is_used_up()), (0, false));
}

#[test]
fn a1_work_beyond_the_budget_is_cut_and_told_and_each_record_stays_in_one_list() {
    // sums that are reached only if a part is counted twice: the quick look says yes, and the search says no
    let [left, right] = thousand_names({
        let mut at = 0;
        move |side| {
            at += 1;
            let power = 5i64.pow(at % 20) * 3;
            if side == 0 { 2 * power + 5i64.pow((at + 7) % 20) * 6 } else { power }
        }
    });
    let found_with = |steps| {
        let mut budget = Budget::of(steps);
        (within(&left, &right, Decimal::ZERO, &mut budget, Limit::NONE).unwrap(), budget)
    };
    let (found, budget) = found_with(10_000_000);
    assert!(budget.is_used_up());
    assert!((1..=1_000).contains(&found.groups_cut), "{}", found.groups_cut);
    let lists = |of: fn(&Match) -> &Vec<usize>, alone: &[usize]| {
        let matches = found.matched.iter().chain(&found.amount_mismatch);
        let mut all: Vec<usize> = matches.flat_map(|one| of(one).clone()).chain(alone.iter().copied()).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(lists(|one| &one.left, &found.left_only), (0..20_000).collect::<Vec<_>>());
    assert_eq!(lists(|one| &one.right, &found.right_only), (0..20_000).collect::<Vec<_>>());
    // what is cut does not depend on chance
    assert_eq!(found_with(10_000_000).0, found);
}

#[test]
fn a11_records_without_a_key_match_nothing() {
    let record = |key: &str| Record { key: key.to_owned(), amount: None };
    let found = reconcile(&[record(""), record("a")], &[record(""), record("a"), record("")], Decimal::ZERO);
    assert_eq!((found.matched, found.left_only, found.right_only), (vec![pair(&[1], &[1], 0)], vec![0], vec![0, 2]));
}
