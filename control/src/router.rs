//! Every route on one page, grouped by who may call.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tower::util::option_layer;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use api::Code;

use crate::access::{self, limits, rotation, sign_in, trial_keys, user_keys};
use crate::app::Node;
use crate::caller::Level;
use crate::compute::{circuits, gates};
use crate::docs::{self, health, models, params};
use crate::web::error::ApiError;
use crate::web::{cors, edge, idempotency, openapi};

/// The API's routes and their description.
fn api(
    guard: impl Fn(Level, UtoipaMethodRouter<Arc<Node>>) -> UtoipaMethodRouter<Arc<Node>>,
    anybody: impl Fn(UtoipaMethodRouter<Arc<Node>>) -> UtoipaMethodRouter<Arc<Node>>,
    signing_in: impl Fn(UtoipaMethodRouter<Arc<Node>>) -> UtoipaMethodRouter<Arc<Node>>,
) -> OpenApiRouter<Arc<Node>> {
    let own = |routes| guard(Level::Own, routes);
    let any_key = |routes| guard(Level::Trial, routes);
    let readers = |routes| guard(Level::Read, routes);
    let writers = |routes| guard(Level::Write, routes);
    let billing = |routes| guard(Level::Billing, routes);
    let users = |routes| guard(Level::Session, routes);
    OpenApiRouter::with_openapi(openapi::frame())
        // everybody; health may be asked as often as a monitor likes
        .routes(routes!(health::brief))
        .routes(routes!(health::full))
        .routes(anybody(routes!(models::list)))
        .routes(anybody(routes!(gates::pricing)))
        .routes(anybody(routes!(params::suggest)))
        // has a limit of its own, which is lower
        .routes(routes!(trial_keys::create))
        .routes(anybody(routes!(trial_keys::revoke)))
        // counts for bursts and lockouts only
        .routes(signing_in(routes!(sign_in::issuer_metadata)))
        .routes(signing_in(routes!(sign_in::openid_configuration)))
        .routes(signing_in(routes!(sign_in::key_set)))
        .routes(signing_in(routes!(sign_in::log_in)))
        .routes(signing_in(routes!(sign_in::refresh)))
        .routes(signing_in(routes!(sign_in::set_up)))
        .routes(signing_in(routes!(sign_in::sign_up)))
        .routes(signing_in(routes!(sign_in::reset_password)))
        // any valid key, to change itself too
        .routes(own(routes!(rotation::rotate)))
        // any valid key; a viewer only to read
        .routes(any_key(routes!(gates::create_managed)))
        .routes(any_key(routes!(gates::create_blind)))
        .routes(any_key(routes!(gates::evaluate)))
        .routes(any_key(routes!(gates::evaluate_batch)))
        .routes(any_key(routes!(gates::encrypt)))
        .routes(any_key(routes!(gates::decrypt)))
        .routes(any_key(routes!(gates::show, gates::delete)))
        .routes(any_key(routes!(circuits::run)))
        .routes(any_key(routes!(circuits::operation, circuits::cancel)))
        .routes(any_key(routes!(circuits::read_handle, circuits::delete_handle)))
        // viewer, developer, account_admin
        .routes(readers(routes!(circuits::list)))
        .routes(readers(routes!(circuits::show)))
        // developer, account_admin
        .routes(writers(routes!(circuits::put, circuits::delete)))
        // account_admin
        .routes(billing(routes!(gates::list)))
        // users of the dashboard, by their session token
        .routes(users(routes!(sign_in::change_password)))
        .routes(users(routes!(user_keys::log_out)))
        .routes(users(routes!(user_keys::list_keys, user_keys::create_key)))
        .routes(users(routes!(user_keys::revoke_key)))
}

/// The pages around the API, for everybody.
fn pages() -> Router<Arc<Node>> {
    Router::new()
        .route("/openapi.json", get(docs::openapi_json))
        .route("/docs", get(docs::swagger_redirect))
        .route("/docs/", get(docs::swagger_file))
        .route("/docs/{*file}", get(docs::swagger_file))
        .route("/docs/quickstart", get(docs::quickstart))
        .route("/docs/errors", get(docs::error_list))
        .route("/docs/errors/{code}", get(docs::error_page))
        .route("/redoc", get(docs::redoc))
        .route("/setup", get(docs::setup))
        .route("/reset", get(docs::reset))
        .route("/link.js", get(docs::link_script))
        .route("/redoc/redoc.standalone.js", get(docs::redoc_script))
}

/// The whole service of one listener.
pub fn router(node: Arc<Node>) -> Router {
    let guard = |level: Level, (schemas, paths, methods): UtoipaMethodRouter<Arc<Node>>| {
        let layer =
            from_fn_with_state(node.clone(), move |state, request, next| access::require(level, state, request, next));
        let once = from_fn_with_state(node.clone(), idempotency::once);
        // of the handlers only: a wrong method is told as such before anybody asks for a key
        (schemas, paths, methods.route_layer(once).route_layer(layer))
    };
    let anybody = |(schemas, paths, methods): UtoipaMethodRouter<Arc<Node>>| {
        (schemas, paths, methods.route_layer(from_fn_with_state(node.clone(), limits::anonymous)))
    };
    let signing_in = |(schemas, paths, methods): UtoipaMethodRouter<Arc<Node>>| {
        (schemas, paths, methods.route_layer(from_fn_with_state(node.clone(), limits::anonymous_paced)))
    };
    let (api, _) = api(guard, anybody, signing_in).split_for_parts();
    api.merge(pages())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(node.clone(), edge::edge))
        // outermost: a page of another origin shall read refusals too
        .layer(option_layer(cors::layer(&node.config.cors_origins)))
        .with_state(node)
}

/// The description of all routes (readings O9), complete but for what [`openapi::document`] adds.
pub fn description() -> utoipa::openapi::OpenApi {
    let told = |level: Level, (schemas, mut paths, methods): UtoipaMethodRouter<Arc<Node>>| {
        openapi::tell_access(&mut paths, level);
        (schemas, paths, methods)
    };
    api(told, |routes| routes, |routes| routes).into_openapi()
}

async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "there is nothing at this path")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "this path does not take this method; see the Allow header")
}
