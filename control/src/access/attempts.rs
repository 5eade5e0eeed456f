//! Attempts to sign in: wrong ones count against the network they come from (readings A21).

use crate::app::Node;
use crate::web::error::ApiError;
use crate::web::peer::ClientAddress;

/// Makes an attempt, unless its network is locked, and counts it if it was wrong.
pub async fn count<T>(
    node: &Node,
    address: ClientAddress,
    attempt: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let (ClientAddress(address), now) = (address, node.clock.now());
    node.limits.check_lockout(Some(address), None, now)?;
    let result = attempt.await;
    result.inspect_err(|refused| {
        tracing::info!(target: "security", code = refused.code.as_str(), "sign-in refused");
        node.limits.failed(refused.code, Some(address), "", now);
    })
}
