//! Unrolls marked loops of WGSL. WGSL compilers do not unroll loops. If a loop indexes an array of a thread, the
//! compiler then puts the array in memory instead of registers.
//!
//! A loop `for (var x = 0u; x < BOUND; x++) { // unroll`, or with `<=`, whose BOUND is a constant of the source's
//! prelude, becomes one block for each value of `x`, with the value in place of `x`. The body of the loop must not
//! assign `x`, leave the loop, or continue with the next turn. Comments in the body must not contain braces; WGSL has
//! no strings.

const MARK: &str = "{ // unroll\n";

/// Unrolls every marked loop of the text.
///
/// # Panics
/// When a marked loop has another form. This would be a mistake in a shader, and every test of a card would detect it.
pub fn unrolled(text: &str, constants: &[(&str, u32)]) -> String {
    let Some(mark) = text.find(MARK) else { return text.to_owned() };
    let head_at = text[..mark].rfind("for (").expect("a loop before its mark");
    let head = &text[head_at..mark];
    let (name, turns) = head_of(head, constants).unwrap_or_else(|| panic!("not to be unrolled: {head}"));
    let body_at = mark + MARK.len();
    let body_end = body_at + end_of_block(&text[body_at..]).unwrap_or_else(|| panic!("without an end: {head}"));
    // unroll the inner loops first, because the body is then copied for each iteration of this loop
    let body = unrolled(&text[body_at..body_end], constants);
    let turns = (0..turns).map(|turn| format!("{{\n{}}}\n", replaced(&body, name, &format!("{turn}u"))));
    let rest = unrolled(&text[body_end + 1..], constants);
    [&text[..head_at], &turns.collect::<String>(), &rest].concat()
}

/// Reads the head of a loop, `for (var x = 0u; x < BOUND; x++) `, and returns the variable and the number of turns.
fn head_of<'a>(head: &'a str, constants: &[(&str, u32)]) -> Option<(&'a str, u32)> {
    let (start, rest) = head.strip_prefix("for (var ")?.split_once("; ")?;
    let (name, zero) = start.split_once(" = ")?;
    let (condition, step) = rest.split_once("; ")?;
    let bound = condition.strip_prefix(name)?.strip_prefix(" <")?;
    let (bound, last) = bound.strip_prefix('=').map_or((bound, 0), |bound| (bound, 1));
    let (_, turns) = constants.iter().find(|(constant, _)| *constant == bound.trim())?;
    let plain = zero == "0u" && step.trim_end() == format!("{name}++)");
    plain.then_some((name, turns + last))
}

/// Finds the closing brace of the block in which the text starts, and returns its index.
fn end_of_block(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.bytes().position(|byte| {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        depth == 0
    })
}

/// Replaces every whole word `word` in `text` by `to`.
fn replaced(text: &str, word: &str, to: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let whole = !out.ends_with(is_word) || !before.is_empty();
        let whole = whole && !before.ends_with(is_word) && !after.starts_with(is_word);
        out.push_str(before);
        out.push_str(if whole { to } else { word });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSTANTS: [(&str, u32); 2] = [("WORDS", 2), ("K", 1)];

    #[test]
    fn a_marked_loop_becomes_as_many_blocks_as_it_has_turns_and_others_stay() {
        let text = "a;\nfor (var w = 0u; w < WORDS; w++) { // unroll\n    row[w] = words[w + ow];\n}\nb;\n";
        let expected = "a;\n{\n    row[0u] = words[0u + ow];\n}\n{\n    row[1u] = words[1u + ow];\n}\n\nb;\n";
        assert_eq!(unrolled(text, &CONSTANTS), expected);
        let plain = "for (var w = 0u; w < WORDS; w++) {\n    row[w] = 1u;\n}\n";
        assert_eq!(unrolled(plain, &CONSTANTS), plain);
    }

    #[test]
    fn loops_within_loops_and_bounds_that_are_reached_are_written_out() {
        let text = "for (var c = 0u; c <= K; c++) { // unroll\nif (x) { for (var w = 0u; w < WORDS; w++) { // unroll\ns[c][w];\n} }\n}";
        let found = unrolled(text, &CONSTANTS);
        let places: Vec<&str> = found.matches("s[").collect();
        assert_eq!(places.len(), 4);
        for place in ["s[0u][0u]", "s[0u][1u]", "s[1u][0u]", "s[1u][1u]"] {
            assert!(found.contains(place), "{found}");
        }
        assert!(!found.contains("for ("), "{found}");
    }

    #[test]
    #[should_panic(expected = "not to be unrolled: for (var w = 1u; w < WORDS; w++)")]
    fn a_marked_loop_of_another_form_is_not_taken_for_one() {
        unrolled("for (var w = 1u; w < WORDS; w++) { // unroll\n}", &CONSTANTS);
    }
}
