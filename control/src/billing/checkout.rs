//! The payment provider's own pages: its billing portal and its checkout (readings P12, P13, P19, P26, W9).

use std::sync::Arc;

use api::Code;
use api::billing::{Checkout, OpenPortal, Portal, StartCheckout};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use reqwest::Url;
use store::SubscriptionState;
use url::Host;

use super::Billing;
use super::payments::{NewCheckout, unavailable};
use super::plan_change::period_end;
use super::plans::SUBSCRIBED;
use super::standing::AccountView;
use super::subscriptions::wanted_cycle;
use crate::caller::{Caller, Plan, Role};
use crate::ids;
use crate::web::body::{self, JsonBody};
use crate::web::error::ApiError;
use crate::web::idempotency::Claim;
use crate::web::openapi::BODY;

/// Longest return URL, in bytes.
const URL_BYTES_MAX: usize = 2048;

impl JsonBody for OpenPortal {
    const BYTES_MAX: usize = 8 << 10;
}

impl JsonBody for StartCheckout {
    const BYTES_MAX: usize = 8 << 10;
}

/// Open the payment provider's portal, where payment methods and invoices are.
#[utoipa::path(
    post,
    path = "/api/v1/billing/portal",
    operation_id = "openBillingPortal",
    tag = "Billing",
    request_body = OpenPortal,
    responses((status = 200, description = "The portal's address.", body = Portal)),
    extensions(("x-errors" = json!([
        Code::ReturnUrlNotAllowed, Code::BillingPortalDisabled, Code::InsufficientRole, Code::Conflict,
        Code::ProviderUnavailable, BODY
    ])))
)]
pub async fn portal(
    State(billing): State<Arc<Billing>>,
    caller: Caller,
    claim: Claim,
    body: body::Json<OpenPortal>,
) -> Result<Response, ApiError> {
    let return_url = billing.return_url(&body.value.return_url)?;
    must_manage(&caller)?;
    let disabled = |why: &str| ApiError::new(Code::BillingPortalDisabled, why);
    let provider = billing.provider.clone().ok_or_else(|| disabled("this node has no payment provider"))?;
    let AccountView { mut subscription, standing, .. } = billing.view(&caller).await?;
    if standing.plan == Plan::Enterprise && subscription.customer_id.is_empty() {
        return Err(disabled("the operator sets and bills this plan"));
    }
    let customer = billing.customer(&*provider, &mut subscription, "").await?;
    let url = provider.portal(&customer, return_url.as_str()).await?;
    let (answer, kept) = claim.keep_secret(Json(Portal { url }).into_response()).await?;
    billing.store.write(async |tx| tx.keep(kept.as_ref()).await).await?;
    Ok(answer)
}

/// Begin a checkout that a page of the client embeds: for a subscription, or to store a card and pay as you go.
#[utoipa::path(
    post,
    path = "/api/v1/billing/checkout",
    operation_id = "startCheckout",
    tag = "Billing",
    request_body = StartCheckout,
    responses((status = 200, description = "The checkout.", body = Checkout)),
    extensions(("x-errors" = json!([
        Code::InvalidRequest, Code::InvalidPlan, Code::InsufficientRole, Code::Conflict, Code::ProviderUnavailable,
        BODY
    ])))
)]
pub async fn start(
    State(billing): State<Arc<Billing>>,
    caller: Caller,
    claim: Claim,
    body: body::Json<StartCheckout>,
) -> Result<Response, ApiError> {
    let StartCheckout { plan, billing_cycle } = body.value;
    let plan = Plan::from_name(&plan).filter(|plan| SUBSCRIBED.contains(plan) || *plan == Plan::Payg);
    let plan = plan.ok_or_else(|| {
        let message = "plan must be payg, starter, pro or scale";
        ApiError::new(Code::InvalidPlan, message).at("plan", "no plan to check out")
    })?;
    let cycle = wanted_cycle(billing_cycle)?;
    must_manage(&caller)?;
    let provider = billing.provider.clone().ok_or_else(unavailable)?;
    let has_one = || {
        let message = "the account has a subscription already: change it with POST /api/v1/billing/subscribe";
        ApiError::new(Code::Conflict, message)
    };
    let mut subscription = billing.subscription(&caller).await?;
    if plan != Plan::Payg && subscription.status != SubscriptionState::None {
        return Err(has_one());
    }
    let customer = billing.customer(&*provider, &mut subscription, "").await?;
    if plan != Plan::Payg {
        let unpaid = billing.adopt(&*provider, &subscription).await?;
        subscription = billing.subscription(&caller).await?;
        if unpaid.is_some() || subscription.status != SubscriptionState::None {
            return Err(has_one());
        }
    }
    let now = billing.clock.now();
    let checkout = NewCheckout {
        customer_id: &customer,
        account_id: &subscription.account_id,
        plan: (plan != Plan::Payg).then(|| (plan, cycle, period_end(now, cycle))),
        embedded: true,
        return_url: &format!("{}/docs", billing.base_url),
        // a fresh key, because each request begins another checkout; the customer completes one of them
        key: &ids::random_hex::<16>("checkout:"),
    };
    let started = provider.start_checkout(&checkout).await?;
    let answer = Checkout { session_id: started.session_id, client_secret: started.client_secret };
    let (answer, kept) = claim.keep_secret(Json(answer).into_response()).await?;
    billing.store.write(async |tx| tx.keep(kept.as_ref()).await).await?;
    Ok(answer)
}

/// Refuses a caller who may not change how the account pays: only an `account_admin` may.
fn must_manage(caller: &Caller) -> Result<(), ApiError> {
    if caller.role == Role::AccountAdmin {
        return Ok(());
    }
    Err(ApiError::new(Code::InsufficientRole, "only an account_admin may use the payment provider's pages"))
}

impl Billing {
    /// Reads a URL to which the provider may send customers back (readings P26).
    fn return_url(&self, text: &str) -> Result<Url, ApiError> {
        let own = Url::parse(&self.base_url).ok();
        let own = own.as_ref().and_then(|url| url.domain());
        let domains = self.payments.return_domains.iter().map(String::as_str).chain(own);
        allowed_return_url(text, domains).ok_or_else(|| {
            let message = "return_url must be a page of this service or of localhost";
            ApiError::new(Code::ReturnUrlNotAllowed, message).at("return_url", "not allowed")
        })
    }
}

/// Returns the URL, if its host is this machine, one of these domains, or a subdomain of one of them.
fn allowed_return_url<'a>(text: &str, mut domains: impl Iterator<Item = &'a str>) -> Option<Url> {
    // refuse characters that URL parsers interpret in different ways
    let is_plain =
        text.len() <= URL_BYTES_MAX && !text.contains('\\') && !text.chars().any(|c| c.is_control() || c == ' ');
    let url: Url = is_plain.then(|| text.parse().ok())??;
    if !url.username().is_empty() || url.password().is_some() || text.split(['/', '?', '#']).nth(2)?.contains('@') {
        return None;
    }
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => text.contains("//127.0.0.1") && address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    let mut is_ours = || {
        let Some(Host::Domain(name)) = url.host() else { return false };
        url.scheme() == "https"
            && domains
                .any(|domain| name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    let allowed = if is_local { matches!(url.scheme(), "http" | "https") } else { is_ours() };
    allowed.then_some(url)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allowed(text: &str) -> bool {
        allowed_return_url(text, ["ango.example", "xn--eckwd4c7c.jp"].into_iter()).is_some()
    }

    #[test]
    fn p26_own_domains_and_this_machine_are_returned_to() {
        for text in [
            "https://ango.example",
            "https://ango.example/billing?done=1#top",
            "https://ANGO.example:8443/",
            "https://app.ango.example/x",
            "https://a.b.ango.example/x",
            "https://ドメイン.jp/",
            "http://localhost:3000/done",
            "https://localhost/",
            "http://127.0.0.1:8080/",
            "http://[::1]:3000/",
        ] {
            assert!(allowed(text), "{text}");
        }
    }

    #[test]
    fn p26_what_only_looks_like_it_is_refused() {
        for text in [
            "",
            "/billing",
            "//ango.example/",
            "ango.example",
            "http://ango.example/",
            "https://evil.example/",
            "https://evilango.example/",
            "https://ango.example.evil.com/",
            "https://ango.example@evil.com/",
            "https://user@ango.example/",
            "https://@ango.example/",
            "https://user:password@ango.example/",
            "https://evil.com\\@ango.example/",
            "https:\\\\ango.example/",
            "https://ango.example\\.evil.com/",
            "https://evil.com/#@ango.example/",
            "https://evil.com/?ango.example",
            "https://evil.com%2eango.example.com/",
            "https://ango.example\t.evil.com/",
            "https://ango.example\n/",
            " https://ango.example/",
            "javascript:alert(1)//ango.example",
            "data:text/html,ango.example",
            "ftp://localhost/",
            "http://localhost.evil.com/",
            "http://127.0.0.2/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://10.0.0.1/",
            "https://xn--eckwd4c7c.jp.evil.com/",
        ] {
            assert!(!allowed(text), "{text}");
        }
        assert!(!allowed(&format!("https://ango.example/{}", "a".repeat(2048))));
    }

    proptest! {
        #[test]
        fn p26_whatever_is_allowed_leads_to_an_allowed_host(text in "(https?:)?[/\\\\@]{0,3}(ango.example|localhost|evil.com)?[.@:/\\\\a-z?#%0-9]{0,20}") {
            if let Some(url) = allowed_return_url(&text, ["ango.example"].into_iter()) {
                let host = url.host_str().unwrap();
                prop_assert!(["localhost", "127.0.0.1", "[::1]", "ango.example"].contains(&host) || host.ends_with(".ango.example"), "{text}");
            }
        }
    }
}
