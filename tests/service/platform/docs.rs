//! The pages around the API (readings O9, E4): they are complete, and load nothing from other servers.

use api::Code;
use tests_service::TestServer;
use tests_service::http::Request;

#[test]
fn the_committed_openapi_page_is_the_one_that_is_served() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let described = control::router::openapi_json();
    if committed != described {
        let new = std::env::temp_dir().join("ango-openapi.json");
        std::fs::write(&new, described).expect("the page is written");
        panic!("the API's description has changed: compare docs/openapi.json with {}", new.display());
    }
}

#[tokio::test]
async fn the_openapi_page_is_served_whole() {
    let server = TestServer::start().await;
    let page = server.send(Request::get("/openapi.json")).await;
    assert_eq!(page.header("content-type"), Some("application/json"));
    let page = page.json();
    assert_eq!(page, serde_json::from_str::<serde_json::Value>(&control::router::openapi_json()).unwrap());
    assert_eq!(page["openapi"], "3.1.0");
    let gate = &page["paths"]["/api/v1/tfhe/gate"]["post"];
    assert_eq!(gate["operationId"], "evaluateGate");
    for status in ["200", "400", "401", "403", "404", "410", "413", "422", "500", "503"] {
        assert!(gate["responses"][status].is_object(), "{status}");
    }
    let follow = |reference: &serde_json::Value| {
        let target = reference["$ref"].as_str().and_then(|target| target.strip_prefix('#')).expect("a reference");
        page.pointer(target).unwrap_or_else(|| panic!("nothing at {target}"))
    };
    let examples = &follow(&gate["responses"]["400"])["content"]["application/json"]["examples"];
    assert_eq!(follow(&examples["MISSING_OPERAND"])["value"]["error"]["code"], "MISSING_OPERAND");
}

#[tokio::test]
async fn both_browsers_of_the_page_come_from_the_binary() {
    let server = TestServer::start().await;
    let redirect = server.send(Request::get("/docs")).await;
    assert_eq!((redirect.status, redirect.header("location")), (307, Some("/docs/")));
    for path in ["/docs/", "/redoc"] {
        let page = server.send(Request::get(path)).await;
        assert_eq!(page.status, 200, "{path}");
        // the node serves everything that the page loads
        for attribute in ["src=\"", "href=\""] {
            for link in page.text().split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap()) {
                let link = link.strip_prefix("./").map_or(link.to_owned(), |file| format!("/docs/{file}"));
                let link = if link.starts_with('/') { link } else { format!("/docs/{link}") };
                assert!(!link.contains("://"), "{path} loads {link}");
                assert_eq!(server.send(Request::get(&link)).await.status, 200, "{path} loads {link}");
            }
        }
        assert!(page.header("content-security-policy").unwrap().contains("default-src 'self'"));
    }
    let initializer = server.send(Request::get("/docs/swagger-initializer.js")).await;
    assert!(initializer.text().contains("\"/openapi.json\""));
    server.send(Request::get("/docs/no-such-file")).await.error(404, "NOT_FOUND");
}

#[tokio::test]
async fn the_quickstart_names_endpoints_that_are_there_and_the_node_itself() {
    let server = TestServer::with(|config| config.public_url = Some("https://fhe.example.org".to_owned())).await;
    let page = server.send(Request::get("/docs/quickstart")).await;
    assert!(page.status == 200 && page.text().contains("export ANGO_URL=https://fhe.example.org"));
    let described = server.send(Request::get("/openapi.json")).await.json();
    let paths = described["paths"].as_object().unwrap();
    for path in ["/api/v1/onboarding/temp-key", "/api/v1/tfhe/pricing"] {
        assert!(page.text().contains(path) && paths.contains_key(path), "{path}");
    }
    for (written, path) in [
        ("post session '{\"preset\"", "/api/v1/tfhe/session"),
        ("post gate ", "/api/v1/tfhe/gate"),
        ("/encrypt '", "/api/v1/tfhe/session/{session_id}/encrypt"),
        ("/decrypt '", "/api/v1/tfhe/session/{session_id}/decrypt"),
    ] {
        assert!(page.text().contains(written) && paths[path]["post"].is_object(), "{path}");
    }
    for link in page.text().split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert_eq!(server.send(Request::get(link)).await.status, 200, "{link}");
    }
    let without = TestServer::with(|config| {
        config.trials = false;
        config.sessions.allow_server_held_key = false;
    });
    let page = without.await.send(Request::get("/docs/quickstart")).await;
    assert!(!page.text().contains("temp-key") && !page.text().contains("post gate"), "{}", page.text());
}

#[tokio::test]
async fn f1_the_wire_format_and_the_walk_through_numbers_are_served_as_pages() {
    let server = TestServer::start().await;
    for (name, file, words) in [
        ("wire-format", include_str!("../../../docs/wire-format.md"), "<td>fingerprint</td>"),
        ("numbers", include_str!("../../../docs/numbers.md"), "<pre><code class=\"language-sh\">"),
    ] {
        let page = server.send(Request::get(format!("/docs/{name}"))).await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")), "{name}");
        let (text, title) = (page.text(), file.lines().next().unwrap().trim_start_matches("# "));
        assert!(text.contains(&format!("<h1>{title}</h1>")) && text.contains(words), "{text}");
        for heading in file.lines().filter_map(|line| line.strip_prefix("## ")) {
            assert!(text.contains(&format!("<h2>{heading}</h2>")), "{heading}");
        }
        for link in text.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert_eq!(server.send(Request::get(link)).await.status, 200, "{name} links to {link}");
        }
        let quickstart = server.send(Request::get("/docs/quickstart")).await;
        assert!(quickstart.text().contains(&format!("href=\"/docs/{name}\"")));
    }
    // the commands of the walk name routes that are there
    let described = server.send(Request::get("/openapi.json")).await.json();
    for (method, path) in [
        ("post", "/api/v1/keys/uploads"),
        ("put", "/api/v1/keys/uploads/{upload_id}/eval-key"),
        ("post", "/api/v1/ciphertexts"),
        ("post", "/api/v1/compute/plan"),
        ("get", "/api/v1/compute/{op}"),
    ] {
        assert!(described["paths"][path][method].is_object(), "{method} {path}");
    }
}

#[tokio::test]
async fn e4_every_code_has_its_page() {
    let server = TestServer::start().await;
    let list = server.send(Request::get("/docs/errors")).await;
    for code in Code::ALL {
        let path = format!("/docs/errors/{}", code.as_str());
        let page = server.send(Request::get(&path)).await;
        assert_eq!(page.status, 200);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.text().contains(code.as_str()) && page.text().contains(&code.status().to_string()));
        assert!(list.text().contains(&path));
    }
    server.send(Request::get("/docs/errors/NO_SUCH_CODE")).await.error(404, "NOT_FOUND");
}
