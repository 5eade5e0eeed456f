//! Users of the embedded issuer: first administrator, passwords, refresh tokens and logging out (readings A10, A11,
//! A24).

use std::time::Duration;

use control::admin::users::setup_link;
use control::caller::Role;
use serde_json::json;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_service::users::{PASSWORD, User};

use tests_service::gates::SESSIONS;

/// The grace time, for which an exchanged refresh token still gives the same new token.
const GRACE: Duration = Duration::from_secs(20);
const LOGIN: &str = "/auth/login";
const REFRESH: &str = "/auth/refresh";
const SETUP: &str = "/auth/setup";
const LOGOUT: &str = "/api/v1/user/logout";
const KEYS: &str = "/api/v1/user/api-keys";

fn post(path: &str, token: &str) -> Request {
    Request::post(path, &json!({})).key(token)
}

async fn refresh(server: &TestServer, token: &str) -> tests_service::http::Response {
    server.send(Request::post(REFRESH, &json!({"refresh_token": token}))).await
}

#[tokio::test]
async fn a10_the_first_administrator_comes_by_a_link_that_works_once() {
    let server = TestServer::start().await;
    let link = server.running().first_setup_link().await.unwrap().expect("the node has no user yet");
    assert!(server.running().first_setup_link().await.unwrap().is_none(), "the link is printed once");
    let token = link.split_once("/setup#").unwrap().1;
    let body = |token: &str| json!({"token": token, "email": "Ada@example.org", "password": PASSWORD});
    server.send(Request::post(SETUP, &body("st_wrong"))).await.error(401, "INVALID_CREDENTIALS");
    let short = json!({"token": token, "email": "ada@example.org", "password": "short"});
    server.send(Request::post(SETUP, &short)).await.error(400, "INVALID_REQUEST");

    let signed_in = server.send(Request::post(SETUP, &body(token))).await.ok(201);
    assert_eq!(signed_in["user"]["role"], "account_admin");
    assert_eq!(signed_in["user"]["email"], "ada@example.org");
    server.send(Request::get(SESSIONS).key(&User::of(&signed_in).token)).await.ok(200);
    server.send(Request::post(SETUP, &body(token))).await.error(401, "INVALID_CREDENTIALS");
    assert!(setup_link(server.running().config()).await.is_err(), "the node has an administrator");
}

#[tokio::test]
async fn a10_a_setup_link_ends_after_a_day_or_with_the_next_one() {
    let server = TestServer::start().await;
    let first = server.running().first_setup_link().await.unwrap().unwrap();
    let second = setup_link(server.running().config()).await.unwrap();
    let body = |link: &str| {
        let token = link.split_once('#').unwrap().1;
        json!({"token": token, "email": "ada@example.org", "password": PASSWORD})
    };
    server.send(Request::post(SETUP, &body(&first))).await.error(401, "INVALID_CREDENTIALS");
    server.clock.advance(Duration::from_secs(24 * 3600 + 1));
    server.send(Request::post(SETUP, &body(&second))).await.error(401, "INVALID_CREDENTIALS");
}

#[tokio::test]
async fn a24_users_sign_in_with_e_mail_in_any_case_and_their_password() {
    let server = TestServer::start().await;
    let ada = server.user("ada@example.org", Role::AccountAdmin).await;
    let again = server.log_in("ADA@Example.Org").await;
    assert_eq!(again.account, ada.account, "the first sign-in made the account");
    for (email, password) in [
        ("ada@example.org", "correct horse battery stapl"),
        ("ada@example.org", ""),
        ("eve@example.org", PASSWORD),
        ("no e-mail", PASSWORD),
    ] {
        let body = json!({"email": email, "password": password});
        let refused = server.send(Request::post(LOGIN, &body)).await.error(401, "INVALID_CREDENTIALS");
        assert_eq!(refused["message"], "the e-mail or the password is wrong", "the same answer for all users");
    }
    server.send(Request::post(LOGIN, &json!({"email": "ada@example.org"}))).await.error(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a24_users_of_the_operator_s_accounts_share_them() {
    let server = TestServer::start().await;
    let ada = server.user("ada@example.org", Role::AccountAdmin).await;
    let operator = server.operator().await;
    operator.create_user("bob@example.org", PASSWORD, Role::Viewer, Some(&ada.account)).await.unwrap();
    assert_eq!(server.log_in("bob@example.org").await.account, ada.account);
    assert!(operator.create_user("Bob@example.org", PASSWORD, Role::Viewer, None).await.is_err());
    let emails: Vec<_> = operator.users().await.unwrap().into_iter().map(|user| user.email.unwrap()).collect();
    assert_eq!(emails, ["ada@example.org", "bob@example.org"]);
}

#[tokio::test]
async fn a24_signing_up_is_off_unless_the_operator_permits_it() {
    let body = json!({"email": "ada@example.org", "password": PASSWORD});
    let closed = TestServer::start().await;
    closed.send(Request::post("/auth/signup", &body)).await.error(403, "FEATURE_DISABLED");
    let open = TestServer::with(|config| config.auth.allow_signup = true).await;
    let signed_in = open.send(Request::post("/auth/signup", &body)).await.ok(201);
    assert_eq!(signed_in["user"]["role"], "account_admin");
    open.send(Request::post("/auth/signup", &body)).await.error(409, "CONFLICT");
}

#[tokio::test]
async fn a9_a_token_opens_routes_of_keys_with_the_user_s_role_and_account() {
    let server = TestServer::start().await;
    let viewer = server.user("vi@example.org", Role::Viewer).await;
    let developer = server.user("dev@example.org", Role::Developer).await;
    let admin = server.user("ada@example.org", Role::AccountAdmin).await;
    for user in [&viewer, &developer] {
        server.send(Request::get(SESSIONS).key(&user.token)).await.error(403, "INSUFFICIENT_ROLE");
    }
    server.send(Request::get(SESSIONS).key(&admin.token)).await.ok(200);
    server.send(Request::get("/api/v1/tfhe/circuits").key(&viewer.token)).await.ok(200);
    server.send(post("/api/v1/tfhe/gate", &viewer.token)).await.error(403, "INSUFFICIENT_ROLE");
    server.send(post("/api/v1/tfhe/gate", &developer.token)).await.error(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a8_routes_of_users_take_no_key() {
    let server = TestServer::start().await;
    let key = server.key(Role::AccountAdmin).await;
    server.send(Request::get(KEYS).key(&key)).await.error(401, "INVALID_SESSION_TOKEN");
    server.send(post(LOGOUT, &key)).await.error(401, "INVALID_SESSION_TOKEN");
    server.send(post("/auth/password", &key)).await.error(401, "INVALID_SESSION_TOKEN");
    server.send(Request::get(KEYS)).await.error(401, "MISSING_AUTH_HEADER");
    server.send(Request::new("POST", LOGOUT)).await.error(401, "MISSING_AUTH_HEADER");
}

#[tokio::test]
async fn a10_a_token_ends_after_an_hour_and_is_refreshed_until_then() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    server.clock.advance(Duration::from_secs(3600 + 50));
    server.send(Request::get(SESSIONS).key(&user.token)).await.ok(200);
    server.clock.advance(Duration::from_secs(15));
    server.send(Request::get(SESSIONS).key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
    let next = User::of(&refresh(&server, &user.refresh).await.ok(200));
    assert_eq!((&next.user_id, &next.account), (&user.user_id, &user.account));
    server.send(Request::get(SESSIONS).key(&next.token)).await.ok(200);
    server.clock.advance(Duration::from_secs(30 * 24 * 3600));
    refresh(&server, &next.refresh).await.error(401, "INVALID_CREDENTIALS");
}

#[tokio::test]
async fn a10_a_refresh_token_that_comes_again_after_its_grace_ends_the_whole_sign_in() {
    let server = TestServer::start().await;
    let stolen = server.user("ada@example.org", Role::AccountAdmin).await;
    let other = server.log_in("ada@example.org").await;
    let thief = User::of(&refresh(&server, &stolen.refresh).await.ok(200));
    server.clock.advance(GRACE);
    refresh(&server, &stolen.refresh).await.error(401, "INVALID_CREDENTIALS");
    refresh(&server, &thief.refresh).await.error(401, "INVALID_CREDENTIALS");
    for token in [&stolen.token, &thief.token] {
        server.send(Request::get(SESSIONS).key(token)).await.error(401, "INVALID_SESSION_TOKEN");
    }
    // the tokens of the user's other sign-in stay valid
    server.send(Request::get(SESSIONS).key(&other.token)).await.ok(200);
    refresh(&server, &other.refresh).await.ok(200);
    for nonsense in ["", "rt_", "rt_0000", &other.token] {
        refresh(&server, nonsense).await.error(401, "INVALID_CREDENTIALS");
    }
}

#[tokio::test]
async fn a10_a_refresh_token_whose_answer_was_lost_gives_the_same_next_one() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let lost = User::of(&refresh(&server, &user.refresh).await.ok(200));
    let next = User::of(&refresh(&server, &user.refresh).await.ok(200));
    assert_eq!(next.refresh, lost.refresh);
    server.send(Request::get(SESSIONS).key(&next.token)).await.ok(200);
    // a token has a grace time only until its successor is exchanged. The first token has been exchanged, and so has
    // its successor; whoever still uses the first one holds a copy, so the sign-in ends.
    refresh(&server, &next.refresh).await.ok(200);
    refresh(&server, &user.refresh).await.error(401, "INVALID_CREDENTIALS");
    server.send(Request::get(SESSIONS).key(&next.token)).await.error(401, "INVALID_SESSION_TOKEN");
}

#[tokio::test]
async fn a10_of_many_exchanges_of_one_refresh_token_at_once_all_give_one_successor() {
    let server = std::sync::Arc::new(TestServer::start().await);
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let exchanges: Vec<_> = (0..8)
        .map(|_| {
            let (server, token) = (server.clone(), user.refresh.clone());
            tokio::spawn(async move { User::of(&refresh(&server, &token).await.ok(200)).refresh })
        })
        .collect();
    let mut successors = std::collections::HashSet::new();
    for exchange in exchanges {
        successors.insert(exchange.await.unwrap());
    }
    assert_eq!(successors.len(), 1);
}

#[tokio::test]
async fn a11_logging_out_ends_the_token_and_its_refresh_tokens_and_nothing_else() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let other = server.log_in("ada@example.org").await;
    let (key, _) = server.create_key(Role::AccountAdmin, Some(user.account.clone())).await;
    let answer = server.send(post(LOGOUT, &user.token)).await.ok(200);
    assert_eq!(answer, json!({"status": "logged_out"}));
    // the node caches tokens that it has checked, but still refuses this token at once
    server.send(post(LOGOUT, &user.token)).await.error(401, "INVALID_SESSION_TOKEN");
    server.send(Request::get(SESSIONS).key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
    refresh(&server, &user.refresh).await.error(401, "INVALID_CREDENTIALS");
    server.send(Request::get(SESSIONS).key(&other.token)).await.ok(200);
    server.send(Request::get(SESSIONS).key(&key)).await.ok(200);
}

#[tokio::test]
async fn a11_every_node_of_a_database_knows_of_a_log_out_within_a_second() {
    let server = TestServer::with(|config| config.public_url = Some("https://fhe.example.org".to_owned())).await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    // the second node has its own folder, but the database and the secret of the first
    let folder = tempfile::tempdir().unwrap();
    let first = server.running().config().clone();
    std::fs::copy(first.data_dir.join("pepper"), folder.path().join("pepper")).unwrap();
    let second = TestServer::in_folder(folder, |config| {
        (config.database_url, config.public_url) = (first.database_url, first.public_url);
    })
    .await;
    second.send(Request::get(SESSIONS).key(&user.token)).await.ok(200);
    server.send(post(LOGOUT, &user.token)).await.ok(200);
    second.clock.advance(Duration::from_secs(1));
    second.send(Request::get(SESSIONS).key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
}

#[tokio::test]
async fn a_disabled_user_is_out_within_a_second() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    server.send(Request::get(SESSIONS).key(&user.token)).await.ok(200);
    server.operator().await.disable_user("ADA@example.org").await.unwrap();
    server.clock.advance(Duration::from_secs(1));
    server.send(Request::get(SESSIONS).key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
    refresh(&server, &user.refresh).await.error(401, "INVALID_CREDENTIALS");
    let body = json!({"email": "ada@example.org", "password": PASSWORD});
    server.send(Request::post(LOGIN, &body)).await.error(401, "INVALID_CREDENTIALS");
    assert!(server.operator().await.disable_user("ada@example.org").await.is_err());
}

#[tokio::test]
async fn a_changed_password_ends_the_user_s_other_sign_ins() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::Viewer).await;
    let other = server.log_in("ada@example.org").await;
    let new = "a quite different one";
    let change = |current: &str, new: &str| {
        Request::post("/auth/password", &json!({"current_password": current, "new_password": new})).key(&user.token)
    };
    server.send(change("wrong wrong wrong", new)).await.error(401, "INVALID_CREDENTIALS");
    server.send(change(PASSWORD, "short")).await.error(400, "INVALID_REQUEST");
    server.send(change(PASSWORD, new)).await.ok(200);
    server.send(Request::get(KEYS).key(&user.token)).await.ok(200);
    server.send(Request::get(KEYS).key(&other.token)).await.error(401, "INVALID_SESSION_TOKEN");
    let login = |password: &str| Request::post(LOGIN, &json!({"email": "ada@example.org", "password": password}));
    server.send(login(PASSWORD)).await.error(401, "INVALID_CREDENTIALS");
    server.send(login(new)).await.ok(200);
}

#[tokio::test]
async fn a_reset_link_sets_a_password_once_within_a_day_and_ends_all_sign_ins() {
    let server = TestServer::start().await;
    let user = server.user("ada@example.org", Role::Viewer).await;
    let operator = server.operator().await;
    let link = async || {
        let (_, link) = operator.reset_link(server.running().config(), "Ada@example.org").await.unwrap();
        link.split_once("/reset#").unwrap().1.to_owned()
    };
    let reset = async |token: &str, new: &str| {
        server.send(Request::post("/auth/reset", &json!({"token": token, "new_password": new}))).await
    };
    let login = |password: &str| Request::post(LOGIN, &json!({"email": "ada@example.org", "password": password}));
    let replaced = link().await;
    let token = link().await;
    reset(&replaced, "a quite different one").await.error(401, "INVALID_CREDENTIALS");
    reset("pt_0", "a quite different one").await.error(401, "INVALID_CREDENTIALS");
    reset(&token, "short").await.error(400, "INVALID_REQUEST");
    server.send(login(PASSWORD)).await.ok(200);
    reset(&token, "a quite different one").await.ok(200);
    reset(&token, "a quite different one").await.error(401, "INVALID_CREDENTIALS");
    server.send(login(PASSWORD)).await.error(401, "INVALID_CREDENTIALS");
    server.send(login("a quite different one")).await.ok(200);
    server.send(Request::get(KEYS).key(&user.token)).await.error(401, "INVALID_SESSION_TOKEN");
    let refresh = Request::post("/auth/refresh", &json!({"refresh_token": user.refresh}));
    server.send(refresh).await.error(401, "INVALID_CREDENTIALS");

    // two links that do not work: the token of the first is too old, and the user of the second is disabled
    let token = link().await;
    server.clock.advance(Duration::from_secs(24 * 3600 + 60));
    reset(&token, PASSWORD).await.error(401, "INVALID_CREDENTIALS");
    server.clock.set_back(Duration::from_secs(24 * 3600 + 60));
    let token = link().await;
    operator.disable_user("ada@example.org").await.unwrap();
    reset(&token, PASSWORD).await.error(401, "INVALID_CREDENTIALS");
    operator.enable_user("ada@example.org").await.unwrap();
    server.send(login("a quite different one")).await.ok(200);
    reset(&token, PASSWORD).await.ok(200);
}

#[tokio::test]
async fn a10_the_signing_key_survives_a_restart() {
    let public = |config: &mut control::config::Config| config.public_url = Some("https://fhe.example.org".to_owned());
    let server = TestServer::with(public).await;
    let user = server.user("ada@example.org", Role::AccountAdmin).await;
    let keys = server.send(Request::get("/.well-known/jwks.json")).await.ok(200);
    assert_eq!((&keys["keys"][0]["alg"], &keys["keys"][0]["crv"]), (&json!("ES256"), &json!("P-256")));
    let discovery = server.send(Request::get("/.well-known/openid-configuration")).await.ok(200);
    assert_eq!(discovery["issuer"], "https://fhe.example.org");
    assert_eq!(discovery["jwks_uri"], "https://fhe.example.org/.well-known/jwks.json");
    // the discovery document claims neither an OAuth grant nor an ID token of OpenID Connect
    assert_eq!((&discovery["grant_types_supported"], &discovery["response_types_supported"]), (&json!([]), &json!([])));
    for member in ["token_endpoint", "authorization_endpoint", "id_token_signing_alg_values_supported"] {
        assert!(discovery.get(member).is_none(), "{member}");
    }
    let metadata = server.send(Request::get("/.well-known/oauth-authorization-server")).await.ok(200);
    assert_eq!(metadata, discovery);
    let server = TestServer::in_folder(server.stop().await, public).await;
    assert_eq!(server.send(Request::get("/.well-known/jwks.json")).await.ok(200), keys);
    server.send(Request::get(SESSIONS).key(&user.token)).await.ok(200);
}

#[tokio::test]
async fn links_lead_to_forms_without_anything_from_elsewhere() {
    let server = TestServer::start().await;
    for (path, to) in [("/setup", "/auth/setup"), ("/reset", "/auth/reset")] {
        let page = server.send(Request::get(path)).await;
        assert_eq!(page.status, 200);
        assert!(page.text().contains(&format!("data-to=\"{to}\"")) && page.text().contains("src=\"/link.js\""));
        assert!(page.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'self'")));
    }
    assert!(server.send(Request::get("/link.js")).await.text().contains("location.hash"));
}
