//! All routes on one page, grouped by the callers that they admit.

use std::sync::{Arc, LazyLock};

use api::Code;
use axum::Router;
use axum::extract::FromRef;
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower::util::option_layer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use crate::access::{self, Access, limits, rotation, sign_in, trial_keys, user_keys};
use crate::billing::{Billing, budget, checkout, invoices, provider_events, subscriptions, usage};
use crate::caller::Level;
use crate::compute::Compute;
use crate::compute::bits::{circuits, gates};
use crate::compute::numbers::keys::{generate, uploads};
use crate::compute::numbers::{arithmetic, ciphertexts, keys};
use crate::docs::{self, Docs, health, models, params, pricing};
use crate::events::{Events, webhooks};
use crate::office::{
    Office, account, admin_keys, documents, ingest, profile, provider, reconcile, registration, stored, withholding,
};
use crate::web::cors::{self, CorsOrigins};
use crate::web::envelope::Area;
use crate::web::error::ApiError;
use crate::web::{Web, edge, idempotency, openapi};

/// The states of all areas. A handler extracts the state of the area that the handler belongs to.
#[derive(Clone, FromRef)]
pub struct Areas {
    pub(crate) web: Arc<Web>,
    pub(crate) access: Arc<Access>,
    pub(crate) billing: Arc<Billing>,
    pub(crate) events: Arc<Events>,
    pub(crate) compute: Arc<Compute>,
    pub(crate) office: Arc<Office>,
    pub(crate) docs: Arc<Docs>,
}

/// The credentials that a caller needs for a route.
#[derive(Clone, Copy)]
enum Door {
    /// Admits a key or token of this area whose role reaches this level.
    Key(Area, Level),
    /// Admits a key of the back office, and callers without a key.
    KeyOrNone,
    /// Admits the administrator's secret.
    Administrator,
    /// Admits callers without a key, counted by their network.
    Anonymous,
    /// Like [`Door::Anonymous`], but only token buckets and lockouts limit the callers.
    SigningIn,
}

/// Routes of one path and their description.
type Routes = UtoipaMethodRouter<Areas>;

/// The API's routes and their description. `behind` either adds the layers of a [`Door`] to routes ([`guarded`]), or
/// adds the door's credentials to their description ([`described`]).
fn api(behind: impl Fn(Door, Routes) -> Routes) -> OpenApiRouter<Areas> {
    let anonymous = |routes| behind(Door::Anonymous, routes);
    let signing_in = |routes| behind(Door::SigningIn, routes);
    let own = |routes| behind(Door::Key(Area::Platform, Level::Own), routes);
    let any_key = |routes| behind(Door::Key(Area::Platform, Level::Trial), routes);
    let computing = |routes| behind(Door::Key(Area::Platform, Level::Compute), routes);
    let readers = |routes| behind(Door::Key(Area::Platform, Level::Read), routes);
    let writers = |routes| behind(Door::Key(Area::Platform, Level::Write), routes);
    let billing = |routes| behind(Door::Key(Area::Platform, Level::Billing), routes);
    let users = |routes| behind(Door::Key(Area::Platform, Level::Session), routes);
    let office = |routes| behind(Door::Key(Area::Office, Level::Trial), routes);
    let office_work = |routes| behind(Door::Key(Area::Office, Level::Compute), routes);
    let key_or_none = |routes| behind(Door::KeyOrNone, routes);
    let administrator = |routes| behind(Door::Administrator, routes);
    OpenApiRouter::with_openapi(openapi::frame())
        // no key; health has no limit, so that monitors may ask at any rate
        .routes(routes!(health::brief))
        .routes(routes!(health::full))
        .routes(anonymous(routes!(models::list)))
        .routes(anonymous(routes!(pricing::list)))
        .routes(anonymous(routes!(params::suggest)))
        // no `Door`, because this route has a separate, lower limit
        .routes(routes!(trial_keys::create))
        .routes(anonymous(routes!(trial_keys::revoke)))
        // no `Door`, because the payment provider's signature is the credential
        .routes(routes!(provider_events::receive))
        // limited only by token buckets and lockouts
        .routes(signing_in(routes!(sign_in::issuer_metadata)))
        .routes(signing_in(routes!(sign_in::openid_configuration)))
        .routes(signing_in(routes!(sign_in::key_set)))
        .routes(signing_in(routes!(sign_in::log_in)))
        .routes(signing_in(routes!(sign_in::refresh)))
        .routes(signing_in(routes!(sign_in::set_up)))
        .routes(signing_in(routes!(sign_in::sign_up)))
        .routes(signing_in(routes!(sign_in::reset_password)))
        // for every valid key, because a key is allowed to replace itself
        .routes(own(routes!(rotation::rotate)))
        // for every valid key, but a viewer may only read
        .routes(computing(routes!(gates::create_managed)))
        .routes(computing(routes!(gates::create_blind)))
        .routes(computing(routes!(gates::evaluate)))
        .routes(computing(routes!(gates::evaluate_batch)))
        .routes(computing(routes!(gates::encrypt)))
        .routes(any_key(routes!(gates::decrypt)))
        .routes(any_key(routes!(gates::show, gates::delete)))
        .routes(computing(routes!(circuits::run)))
        .routes(any_key(routes!(circuits::operation, circuits::cancel)))
        .routes(any_key(routes!(circuits::read_handle, circuits::delete_handle)))
        .routes(any_key(routes!(keys::upload)))
        .routes(computing(routes!(generate::generate)))
        .routes(any_key(routes!(generate::download)))
        .routes(any_key(routes!(uploads::create)))
        .routes(any_key(routes!(uploads::show, uploads::delete)))
        .routes(any_key(routes!(uploads::put_public)))
        .routes(any_key(routes!(uploads::put_eval)))
        .routes(any_key(routes!(uploads::complete)))
        .routes(computing(routes!(arithmetic::run)))
        .routes(computing(routes!(arithmetic::run_named)))
        .routes(computing(routes!(arithmetic::plan)))
        .routes(any_key(routes!(ciphertexts::upload)))
        .routes(any_key(routes!(ciphertexts::show, ciphertexts::delete)))
        .routes(any_key(routes!(webhooks::list)))
        .routes(any_key(routes!(webhooks::test)))
        .routes(any_key(routes!(webhooks::list_events)))
        .routes(any_key(routes!(webhooks::show)))
        .routes(any_key(routes!(webhooks::list_deliveries)))
        // the roles viewer, developer and account_admin
        .routes(readers(routes!(keys::list)))
        .routes(readers(routes!(keys::show)))
        .routes(readers(routes!(ciphertexts::list)))
        .routes(readers(routes!(circuits::list)))
        .routes(readers(routes!(circuits::show)))
        // the roles developer and account_admin
        .routes(writers(routes!(circuits::put, circuits::delete)))
        .routes(writers(routes!(keys::delete)))
        .routes(writers(routes!(arithmetic::status, arithmetic::cancel)))
        .routes(writers(routes!(webhooks::create)))
        .routes(writers(routes!(webhooks::change, webhooks::delete)))
        .routes(writers(routes!(webhooks::regenerate_secret)))
        .routes(writers(routes!(webhooks::replay)))
        // account_admin
        .routes(billing(routes!(gates::list)))
        .routes(billing(routes!(budget::show, budget::set)))
        .routes(billing(routes!(subscriptions::subscribe)))
        .routes(billing(routes!(subscriptions::show, subscriptions::cancel)))
        .routes(billing(routes!(invoices::list)))
        // users of the dashboard, with their session token
        .routes(users(routes!(sign_in::change_password)))
        .routes(users(routes!(usage::show)))
        .routes(users(routes!(checkout::portal)))
        .routes(users(routes!(checkout::start)))
        .routes(users(routes!(user_keys::log_out)))
        .routes(users(routes!(user_keys::list_keys, user_keys::create_key)))
        .routes(users(routes!(user_keys::revoke_key)))
        // the back office, with its keys: a viewer may only read, and an account that has not paid may not call charged
        // endpoints
        .routes(office_work(routes!(documents::create)))
        .routes(office_work(routes!(documents::create_from_payment)))
        .routes(office_work(routes!(documents::create_from_payments)))
        .routes(office_work(routes!(withholding::create)))
        .routes(office_work(routes!(withholding::create_from_transfers)))
        .routes(key_or_none(routes!(reconcile::run)))
        .routes(office_work(routes!(registration::verify)))
        .routes(office_work(routes!(registration::monitor)))
        .routes(office(routes!(registration::audit)))
        .routes(office(routes!(account::me)))
        .routes(office(routes!(account::set_cap)))
        .routes(office(routes!(profile::show, profile::set)))
        .routes(office(routes!(stored::list)))
        .routes(office(routes!(stored::download)))
        .routes(office_work(routes!(stored::correct)))
        .routes(administrator(routes!(admin_keys::issue)))
        // no `Door::Key`: the credential is the signature, the checkout's id, or the token in the address
        .routes(routes!(provider::webhook))
        .routes(routes!(provider::stripe_webhook))
        .routes(signing_in(routes!(provider::by_session)))
        .routes(routes!(ingest::receive))
}

/// Makes the routes of the pages around the API, which need no key.
fn pages() -> Router<Areas> {
    Router::new()
        .route("/openapi.json", get(openapi_page))
        .route("/docs", get(docs::swagger_redirect))
        .route("/docs/", get(docs::swagger_file))
        .route("/docs/{*file}", get(docs::swagger_file))
        .route("/docs/quickstart", get(docs::quickstart))
        .route("/docs/wire-format", get(docs::written::wire_format))
        .route("/docs/numbers", get(docs::written::numbers))
        .route("/docs/errors", get(docs::error_list))
        .route("/docs/errors/{code}", get(docs::error_page))
        .route("/redoc", get(docs::redoc))
        .route("/invoices/{invoice_id}/{code}", get(invoices::page))
        .route("/setup", get(docs::setup))
        .route("/reset", get(docs::reset))
        .route("/link.js", get(docs::link_script))
        .route("/redoc/redoc.standalone.js", get(docs::redoc_script))
}

/// Adds the layers that check the credentials of a [`Door`] to routes. The layers lie around handlers only, so that a
/// wrong method gets 405 before a key is looked up.
fn guarded(areas: &Areas, door: Door, (schemas, paths, methods): Routes) -> Routes {
    let Areas { web, access, office, .. } = areas.clone();
    let limits = access.limits.clone();
    let methods = match door {
        Door::Key(area, level) => {
            let layer = from_fn_with_state(access, move |state, request, next| {
                access::require(level, area, state, request, next)
            });
            methods.route_layer(from_fn_with_state(web, idempotency::once)).route_layer(layer)
        }
        Door::KeyOrNone => methods.route_layer(from_fn_with_state(access, |state, request, next| {
            access::require_if_shown(Level::Trial, Area::Office, state, request, next)
        })),
        Door::Administrator => methods.route_layer(from_fn_with_state(office, admin_keys::require)),
        Door::Anonymous => methods.route_layer(from_fn_with_state(limits, limits::anonymous)),
        Door::SigningIn => methods.route_layer(from_fn_with_state(limits, limits::paced)),
    };
    (schemas, paths, methods)
}

/// Adds the credentials of a [`Door`] to the API description of routes.
fn described(door: Door, (schemas, mut paths, methods): Routes) -> Routes {
    match door {
        Door::Key(area, level) => openapi::tell_access(&mut paths, area, level),
        Door::KeyOrNone => openapi::tell_optional_key(&mut paths),
        Door::Administrator => openapi::tell_administrator(&mut paths),
        Door::Anonymous | Door::SigningIn => {}
    }
    (schemas, paths, methods)
}

/// Builds the whole service of a listener.
pub fn router(areas: Areas, cors_origins: &CorsOrigins) -> Router {
    let (api, _) = api(|door, routes| guarded(&areas, door, routes)).split_for_parts();
    let Areas { web, access, .. } = areas.clone();
    // the layer that is added last is the outermost
    api.merge(pages())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(web.clone(), edge::answer))
        .layer(from_fn_with_state(access.limits.clone(), limits::counted))
        .layer(from_fn_with_state(web, edge::arrive))
        // outside the other layers, so that pages of other origins can read refusals too
        .layer(option_layer(cors::layer(cors_origins)))
        .with_state(areas)
}

/// Makes the description of all routes (readings O9). [`openapi::document`] completes it.
pub fn description() -> OpenApi {
    api(described).into_openapi()
}

/// Writes the OpenAPI description as it is committed (specification, Versioning 4).
pub fn openapi_json() -> String {
    openapi::pretty(&openapi::document(description()))
}

async fn openapi_page() -> Response {
    static PAGE: LazyLock<String> =
        LazyLock::new(|| openapi::document(description()).to_json().expect("the page is JSON"));
    ([(header::CONTENT_TYPE, "application/json")], PAGE.as_str()).into_response()
}

async fn not_found() -> ApiError {
    ApiError::new(Code::NotFound, "there is nothing at this path")
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "this path does not support this method; see the Allow header")
}
