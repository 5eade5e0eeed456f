//! Keys that the administrator issues (specification, `/v1/admin/keys`; readings B3-B5, B46).

use std::sync::Arc;

use api::Code;
use api::office::IssuedKey;
use api::sign_in::Hidden;
use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use docs_module::request::{self, KeyOrder};
use sha2::{Digest, Sha256};
use store::NewApiKey;
use subtle::ConstantTimeEq;

use super::Office;
use super::body::Body;
use crate::access::api_key::FreshKey;
use crate::access::{Access, presented_key};
use crate::caller::{Environment, Plan, Role};
use crate::ids;
use crate::web::envelope::Area;
use crate::web::error::ApiError;
use crate::web::openapi::BODY;
use crate::web::peer::ClientAddress;

/// Lets a request pass only if it has the administrator's secret, which is in the settings. A wrong secret counts for
/// the lockout of the caller's network, like a wrong API key.
pub async fn require(State(office): State<Arc<Office>>, request: Request, next: Next) -> Result<Response, ApiError> {
    let forbidden = || {
        ApiError::new(
            Code::InsufficientRole,
            "only the administrator may issue keys: send the secret SERVICE_ADMIN_KEY",
        )
    };
    let Some(secret) = &office.config.admin_key else { return Err(forbidden()) };
    let Access { limits, api_keys, .. } = &*office.access;
    let now = office.clock.now();
    let address = request.extensions().get::<ClientAddress>().map(|address| address.0);
    limits.check_lockout(address, None, now)?;
    let shown = presented_key(request.headers())?;
    limits.check_lockout(None, Some(shown), now)?;
    // compare digests: all digests have the same length, so the time of the comparison hides the secret's length
    if bool::from(Sha256::digest(shown).ct_eq(&Sha256::digest(secret.0.as_bytes()))) {
        return Ok(next.run(request).await);
    }
    let refused = match api_keys.caller(shown, Area::Platform, now).await {
        Ok(_) => return Err(forbidden()),
        Err(refused) => refused,
    };
    tracing::info!(target: "security", code = refused.code.as_str(), "credential refused");
    limits.failed(refused.code, address, shown, now);
    Err(refused)
}

/// Issue an API key on a plan, with a new account.
///
/// The administrator issues a key after a payment was received. No later answer shows the key again.
#[utoipa::path(
    post,
    path = "/v1/admin/keys",
    operation_id = "issueKey",
    tag = "Back office",
    request_body = api::office::IssueKeyIn,
    responses((status = 200, description = "The key.", body = IssuedKey)),
    extensions(("x-errors" = json!(BODY)))
)]
pub async fn issue(State(office): State<Arc<Office>>, body: Body) -> Result<Json<IssuedKey>, ApiError> {
    let KeyOrder { plan, customer, cap_yen } = body.work(|bytes, _| request::key_order(bytes)).await?;
    let now = office.clock.now();
    let plan = Plan::from_name(&plan).ok_or_else(|| ApiError::internal("the plan's name is unknown"))?;
    let fresh = FreshKey::generate(Environment::Live);
    let (account_id, key_id, lineage_id) = (ids::account(now), ids::key(now), ids::lineage(now));
    let key = NewApiKey {
        key_id: key_id.as_str(),
        account_id: account_id.as_str(),
        lineage_id: lineage_id.as_str(),
        digest: &office.access.api_keys.digest(&fresh.secret),
        key_prefix: &fresh.display_prefix,
        // `account_admin`, because the account has no user with more rights
        role: Role::AccountAdmin,
        environment: Environment::Live,
        office: true,
        plan,
        created_at: now.0,
        expires_at: None,
    };
    office
        .store
        .write(async |tx| {
            tx.insert_api_key(&key).await?;
            tx.label_key(key.lineage_id, &customer).await?;
            tx.set_office_cap(key.lineage_id, cap_yen, now.0).await
        })
        .await?;
    tracing::info!(target: "security", account_id = key.account_id, key_id = key.key_id, "key issued by the administrator");
    Ok(Json(IssuedKey {
        api_key: Hidden(fresh.secret.to_string()),
        key: Hidden(fresh.secret.to_string()),
        key_id: key.key_id.to_owned(),
        key_prefix: fresh.display_prefix.clone(),
        plan: plan.as_str().to_owned(),
        customer,
        cap_yen,
        created_at: now.rfc3339(),
    }))
}
