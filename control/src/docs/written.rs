//! Pages of the folder `docs/` as HTML, contained in the binary.

use std::sync::LazyLock;

use axum::response::Response;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

use super::page;

/// A page: its title and its HTML.
struct Written {
    title: String,
    body: String,
}

/// The pages by their names, which are the names of their files and the ends of their addresses.
const WIRE_FORMAT: (&str, &str) = ("wire-format", include_str!("../../../docs/wire-format.md"));
const NUMBERS: (&str, &str) = ("numbers", include_str!("../../../docs/numbers.md"));
const SERVED: [&str; 2] = [WIRE_FORMAT.0, NUMBERS.0];

/// Returns the page about the bytes of keys and ciphertexts.
pub async fn wire_format() -> Response {
    static PAGE: LazyLock<Written> = LazyLock::new(|| written(WIRE_FORMAT.1));
    page(&PAGE.title, &PAGE.body)
}

/// Returns the walk through numbers over HTTP.
pub async fn numbers() -> Response {
    static PAGE: LazyLock<Written> = LazyLock::new(|| written(NUMBERS.1));
    page(&PAGE.title, &PAGE.body)
}

/// Makes HTML of a page in Markdown whose first line is its title.
fn written(text: &str) -> Written {
    let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
    let mut kept = Vec::new();
    let events = Parser::new_ext(rest, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let address = address(&dest_url);
            kept.push(address.is_some());
            address.map(|dest_url| Event::Start(Tag::Link { link_type, dest_url, title, id }))
        }
        Event::End(TagEnd::Link) => kept.pop().unwrap_or(true).then_some(event),
        event => Some(event),
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    Written { title: title.trim_start_matches("# ").to_owned(), body }
}

/// Returns the address on a node to which a link leads. `None`: a file that no node serves, so its name stays without a
/// link.
fn address(link: &str) -> Option<CowStr<'static>> {
    if link.contains("://") {
        return Some(link.to_owned().into());
    }
    let (file, _) = link.split_once('#').unwrap_or((link, ""));
    let name = file.strip_suffix(".md")?;
    SERVED.contains(&name).then(|| format!("/docs/{name}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_title_tables_commands_and_links_to_what_is_served() {
        let text = "# A title\n\n[there](wire-format.md#x), [not there](../README.md), [out](https://example.org)\n\n\
            | a | b |\n| --- | --- |\n| 1 < 2 | `c` |\n\n```sh\necho 1 && echo \"2\"\n```\n";
        let page = written(text);
        assert_eq!(page.title, "A title");
        for part in [
            "<a href=\"/docs/wire-format\">there</a>",
            ", not there, ",
            "<a href=\"https://example.org\">out</a>",
            "<td>1 &lt; 2</td><td><code>c</code></td>",
            "<pre><code class=\"language-sh\">echo 1 &amp;&amp; echo ",
        ] {
            assert!(page.body.contains(part), "{part}: {}", page.body);
        }
    }
}
